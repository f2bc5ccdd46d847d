/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * zcache-demo: the whole main job in one run, on real pages; `make run` starts it.
 *
 * Starts a private zcached. Four client processes store their share of the pages, read every one
 * back and compare each byte, delete 60 %; the pool is compacted and everything is compared again,
 * deleted pages being misses. Prints a table. Exit status 0 only if no byte was wrong.
 *
 * The parent and each client talk over a socket pair: a letter says which phase to do, a struct
 * report comes back.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <zclient.h>

#include "demo_memory.h"
#include "pages.h"
#include "service.h"
#include "text.h"

#define CLIENTS	       4u
#define PAGES_MAX      (120u << 20 >> 12) /* 120 MiB */
#define DELETE_PERCENT 60u

enum phase {
	STORE = 's',
	COMPARE = 'c',
	DELETE = 'd'
};

/* What a client did in one phase. */
struct report {
	int error; /* negative errno of the call that ended the phase early */
	char text[128];
	uint64_t puts, gets, deletes;
	double put_seconds, get_seconds;
	uint64_t compared, wrong;
};

/* A client process, seen from inside. */
struct client {
	const struct memory *memory;
	struct zc *zc;
	struct zc_pool *pool;
	uint64_t first, last; /* its share of the pages */
	bool deleted;	      /* the phase DELETE is over */
	struct report report;
};

struct demo {
	struct memory memory;
	struct service service;
	struct zc *zc;
	struct zc_pool *pool;
	int link[CLIENTS];
	pid_t pid[CLIENTS];
	struct report total;
	struct zc_stats stored, after_delete, after_compact;
	struct zc_compaction compaction;
};

static double
now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static const char *
page_at(const struct client *client, uint64_t number)
{
	return client->memory->pages + number * BENCH_PAGE_SIZE;
}

static bool
is_to_delete(uint64_t number)
{
	uint64_t state = number;

	return random_next(&state) % 100 < DELETE_PERCENT;
}

static int
store(struct client *client)
{
	double start = now();

	for (uint64_t i = client->first; i < client->last; i++) {
		int error = zc_put(client->pool, (zc_key){0, i}, page_at(client, i),
				   BENCH_PAGE_SIZE, 0);

		if (error)
			return error;
		client->report.puts++;
	}
	client->report.put_seconds = now() - start;
	return 0;
}

static int
compare(struct client *client)
{
	char value[BENCH_PAGE_SIZE];

	for (uint64_t i = client->first; i < client->last; i++) {
		bool gone = client->deleted && is_to_delete(i);
		double start = now();
		int length = zc_get(client->pool, (zc_key){0, i}, value, sizeof(value));

		client->report.get_seconds += now() - start;
		client->report.gets++;
		if (length < 0 && length != -ENOENT && length != -EBADMSG)
			return length;
		client->report.compared++;
		if (gone ? length != -ENOENT
			 : length != BENCH_PAGE_SIZE ||
				    memcmp(value, page_at(client, i), BENCH_PAGE_SIZE) != 0)
			client->report.wrong++;
	}
	return 0;
}

static int
delete_some(struct client *client)
{
	for (uint64_t i = client->first; i < client->last; i++) {
		int error = is_to_delete(i) ? zc_del(client->pool, (zc_key){0, i}) : 0;

		if (error)
			return error;
		client->report.deletes += is_to_delete(i);
	}
	client->deleted = true;
	return 0;
}

static int
client_connect(struct client *client, const char *socket)
{
	int error = zc_open(socket, 0, &client->zc);

	return error ? error : zc_pool_open(client->zc, NULL, 0, &client->pool);
}

static int
do_phase(struct client *client, enum phase phase)
{
	switch (phase) {
	case STORE:
		return store(client);
	case COMPARE:
		return compare(client);
	case DELETE:
		return delete_some(client);
	}
	return -EINVAL;
}

/* A client process: connects at its first phase, ends when the parent closes the link. */
static void
client_main(struct client *client, const char *socket, int link)
{
	char phase;

	while (read(link, &phase, 1) == 1) {
		struct report *report = &client->report;

		*report = (struct report){0};
		if (!client->pool)
			report->error = client_connect(client, socket);
		if (!report->error)
			report->error = do_phase(client, (enum phase)phase);
		if (report->error && client->zc)
			snprintf(report->text, sizeof(report->text), "%s",
				 zc_error_text(client->zc));
		if (write(link, report, sizeof(*report)) != sizeof(*report))
			break;
	}
	zc_pool_close(&client->pool);
	zc_close(&client->zc);
}

static bool
start_client(struct demo *demo, unsigned number)
{
	int link[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link) < 0)
		return false;
	demo->pid[number] = fork();
	if (demo->pid[number] == 0) {
		struct client client = {
			.memory = &demo->memory,
			.first = demo->memory.count * number / CLIENTS,
			.last = demo->memory.count * (number + 1) / CLIENTS,
		};

		/* The parent's end of earlier links too: a link ends when its last holder goes. */
		for (unsigned i = 0; i < number; i++)
			close(demo->link[i]);
		close(link[0]);
		client_main(&client, demo->service.socket, link[1]);
		_exit(0);
	}
	close(link[1]);
	demo->link[number] = link[0];
	return demo->pid[number] > 0;
}

static bool
start_clients(struct demo *demo)
{
	for (unsigned i = 0; i < CLIENTS; i++)
		if (!start_client(demo, i)) {
			fprintf(stderr, "cannot start client %u: %s\n", i + 1, strerror(errno));
			return false;
		}
	return true;
}

static void
end_clients(struct demo *demo)
{
	for (unsigned i = 0; i < CLIENTS; i++)
		if (demo->pid[i] > 0) {
			close(demo->link[i]);
			waitpid(demo->pid[i], NULL, 0);
		}
}

static void
add_report(struct report *total, const struct report *report)
{
	total->puts += report->puts;
	total->gets += report->gets;
	total->deletes += report->deletes;
	total->put_seconds += report->put_seconds;
	total->get_seconds += report->get_seconds;
	total->compared += report->compared;
	total->wrong += report->wrong;
}

static bool
take_report(struct demo *demo, unsigned number)
{
	struct report report;

	if (read(demo->link[number], &report, sizeof(report)) != sizeof(report)) {
		fprintf(stderr, "client %u died\n", number + 1);
		return false;
	}
	if (report.error) {
		fprintf(stderr, "client %u: %s %s\n", number + 1, strerror(-report.error),
			report.text);
		return false;
	}
	add_report(&demo->total, &report);
	return true;
}

/* Has all clients do a phase at once and waits for them. */
static bool
all_clients(struct demo *demo, const char *what, enum phase phase)
{
	char letter = (char)phase;

	for (unsigned i = 0; i < CLIENTS; i++)
		if (send(demo->link[i], &letter, 1, MSG_NOSIGNAL) != 1) {
			fprintf(stderr, "client %u died\n", i + 1);
			return false;
		}
	for (unsigned i = 0; i < CLIENTS; i++) {
		progress(what, i, CLIENTS);
		if (!take_report(demo, i))
			return false;
	}
	progress_end();
	return true;
}

static bool
read_stats(struct demo *demo, struct zc_stats *stats)
{
	int result;

	*stats = (struct zc_stats){.struct_size = sizeof(*stats)};
	result = zc_stats(demo->pool, stats);
	if (result < 0)
		fprintf(stderr, "statistics: %s\n", strerror(-result));
	return result == 0;
}

/* The same once the service has given back what was freed, which takes it up to a second. */
static bool
read_settled_stats(struct demo *demo, struct zc_stats *stats)
{
	struct timespec pause = {0, 700000000};
	uint64_t last;

	if (!read_stats(demo, stats))
		return false;
	do {
		last = stats->resident_bytes;
		nanosleep(&pause, NULL);
		if (!read_stats(demo, stats))
			return false;
	} while (stats->resident_bytes != last);
	return true;
}

static bool
compact(struct demo *demo)
{
	struct zc_compaction *compaction = &demo->compaction;
	struct timespec pause = {0, 2000000};
	int result;

	compaction->struct_size = sizeof(*compaction);
	result = zc_compact_start(demo->pool, 0, compaction);
	while (result == 0) {
		result = zc_compact_status(demo->pool, compaction);
		if (result < 0 || !compaction->running)
			break;
		nanosleep(&pause, NULL);
	}
	if (result < 0)
		fprintf(stderr, "compaction: %s\n", strerror(-result));
	return result == 0;
}

static bool
connect_parent(struct demo *demo)
{
	int result = zc_open(demo->service.socket, 0, &demo->zc);

	if (result == 0)
		result = zc_pool_open(demo->zc, NULL, 0, &demo->pool);
	if (result < 0)
		fprintf(stderr, "cannot connect to %s: %s\n", demo->service.socket,
			strerror(-result));
	return result == 0;
}

/* The parent connects after the clients are forked: a child has no use for its connection. */
static bool
play(struct demo *demo)
{
	return start_clients(demo) && connect_parent(demo) && all_clients(demo, "storing", STORE) &&
	       read_stats(demo, &demo->stored) && all_clients(demo, "comparing", COMPARE) &&
	       all_clients(demo, "deleting", DELETE) &&
	       read_settled_stats(demo, &demo->after_delete) && compact(demo) &&
	       read_stats(demo, &demo->after_compact) && all_clients(demo, "comparing", COMPARE);
}

static void
print_stage(const char *name, const struct zc_stats *stats)
{
	char pages[TEXT_SIZE], logical[TEXT_SIZE], compressed[TEXT_SIZE], pool[TEXT_SIZE];

	printf("  %-14s %10s %12s %12s %12s %8.2f\n", name, text_count(stats->entries, pages),
	       text_bytes(stats->logical_bytes, logical),
	       text_bytes(stats->stored_bytes, compressed), text_bytes(stats->data_bytes, pool),
	       ratio(stats->logical_bytes, stats->data_bytes));
}

static void
print_table(const struct demo *demo)
{
	char a[TEXT_SIZE], b[TEXT_SIZE];
	const struct report *total = &demo->total;

	printf("%s pages: %s\n\n", text_count(demo->memory.count, a), demo->memory.source);
	printf("  %-14s %10s %12s %12s %12s %8s\n", "", "pages", "logical", "compressed", "pool",
	       "ratio");
	print_stage("stored", &demo->stored);
	print_stage("60 % deleted", &demo->after_delete);
	print_stage("compacted", &demo->after_compact);
	printf("\n  time per put   %8.1f us   (%u clients at once, over the socket)\n",
	       1e6 * total->put_seconds / (double)total->puts, CLIENTS);
	printf("  time per get   %8.1f us\n", 1e6 * total->get_seconds / (double)total->gets);
	printf("  compaction     %8s objects moved, %s pages freed\n",
	       text_count(demo->compaction.objects_moved + demo->compaction.objects_packed, a),
	       text_count(demo->compaction.pages_freed, b));
	printf("  compared       %8s pages, %s wrong\n", text_count(total->compared, a),
	       text_count(total->wrong, b));
}

static int
run(struct demo *demo)
{
	static const char *const arguments[] = {
		"--limit", "512M", "--pool", "default:compact=manual", NULL,
	};
	bool played;

	if (!service_start(&demo->service, arguments))
		return 1;
	played = play(demo);
	progress_end();
	end_clients(demo);
	zc_pool_close(&demo->pool);
	zc_close(&demo->zc);
	if (played)
		print_table(demo);
	return service_stop(&demo->service) && played && !demo->total.wrong ? 0 : 1;
}

static void
usage(FILE *out)
{
	fputs("usage: zcache-demo [--pages FILE | --programs FOLDER]\n\n"
	      "  --pages FILE       store this raw file of 4 KiB pages\n"
	      "  --programs FOLDER  store memory of the programs there, started for it\n"
	      "Without either, or where no program runs: files under /usr/lib.\n",
	      out);
}

static bool
find_pages(struct memory *memory, const char *file, const char *programs)
{
	if (file)
		return memory_of_page_file(memory, file);
	return (programs && memory_of_programs(memory, programs)) ||
	       memory_of_files(memory, "/usr/lib");
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
		{"pages", required_argument, NULL, 'f'},
		{"programs", required_argument, NULL, 'p'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	const char *file = NULL, *programs = NULL;
	static struct demo demo;
	int option;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) >= 0)
		switch (option) {
		case 'f':
			file = optarg;
			break;
		case 'p':
			programs = optarg;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	if (!memory_init(&demo.memory, PAGES_MAX) || !find_pages(&demo.memory, file, programs))
		return 1;
	return run(&demo);
}
