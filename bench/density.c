/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * zcache-bench density: how much memory pages cost, and how much compaction gets back.
 *
 * Stores a corpus through the service, reads it back, deletes 60 % at random, compacts once, and
 * measures the pool at each stage. Automatic compaction is off, so that what is measured is what
 * was asked for. Every page is compared at every stage, deleted ones must be misses.
 */
#include "density.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "command.h"
#include "text.h"

#define DELETE_PERCENT 60u
/* Statistics at rest: equal in so many samples, taken so many milliseconds apart. The service's
 * keeper may wait a second before it gives back what was freed. */
#define REST_SAMPLES	   25
#define REST_INTERVAL_MS   50
#define REST_TIMEOUT_TRIES 1200

struct density_result {
	struct zc_stats stored, after_delete, after_compact;
	struct zc_compaction compaction;
};

static void
usage(FILE *out)
{
	fputs("usage: zcache-bench density --pages FILE [OPTION...]\n\n"
	      "  --pages FILE  raw file of 4 KiB pages to store\n"
	      "  --copies N    store the file N times; every copy but the first is changed a "
	      "little\n"
	      "                in every page (default 1)\n"
	      "  --codec C     lz4 (default), zstd or zstd:LEVEL\n"
	      "  --seed S      what is changed and what is deleted (default 1)\n"
	      "  --sweep       instead: metadata per page, from 100,000 to 1,000,000 pages\n"
	      "  --json        one JSON object instead of a table\n",
	      out);
}

/* Returns -1 to go on, or the exit status. */
static int
parse_options(struct density *density, int argc, char **argv)
{
	enum {
		PAGES = 256,
		COPIES,
		CODEC,
		SEED,
		SWEEP,
		JSON
	};
	static const struct option options[] = {
		{"pages", required_argument, NULL, PAGES},
		{"copies", required_argument, NULL, COPIES},
		{"codec", required_argument, NULL, CODEC},
		{"seed", required_argument, NULL, SEED},
		{"sweep", no_argument, NULL, SWEEP},
		{"json", no_argument, NULL, JSON},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	bool valid = true;
	int option;

	while (valid && (option = getopt_long(argc, argv, "h", options, NULL)) >= 0)
		switch (option) {
		case PAGES:
			density->path = optarg;
			break;
		case COPIES:
			valid = text_number(optarg, 1, 1u << 20, &density->copies);
			break;
		case CODEC:
			density->codec = optarg;
			break;
		case SEED:
			valid = text_number(optarg, 0, UINT64_MAX, &density->seed);
			break;
		case SWEEP:
			density->sweep = true;
			break;
		case JSON:
			density->json = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			valid = false;
		}
	if (valid && optind == argc && density->path)
		return -1;
	usage(stderr);
	return 2;
}

int
density_store(struct client *client, uint64_t item, void *arg)
{
	const struct corpus *corpus = &((struct density *)arg)->corpus;

	corpus_page(corpus, item, client->page);
	return zc_put(client->pool, corpus_key(corpus, item), client->page, BENCH_PAGE_SIZE, 0);
}

static bool
is_right(struct client *client, const struct density *density, uint64_t item, int length)
{
	if (density->deleted && density->deleted[item])
		return length == -ENOENT;
	corpus_page(&density->corpus, item, client->page);
	return length == BENCH_PAGE_SIZE && !memcmp(client->page, client->value, BENCH_PAGE_SIZE);
}

int
density_verify(struct client *client, uint64_t item, void *arg)
{
	const struct density *density = arg;
	zc_key key = corpus_key(&density->corpus, item);
	int length = zc_get(client->pool, key, client->value, BENCH_PAGE_SIZE);

	if (length < 0 && length != -ENOENT && length != -EBADMSG)
		return length;
	client->verified++;
	if (!is_right(client, density, item, length)) {
		client->mismatches++;
		fprintf(stderr, "wrong: page %llu of copy %llu: %s\n",
			(unsigned long long)key.index, (unsigned long long)key.object,
			length < 0 ? strerror(-length) : "other bytes than were stored");
	}
	return 0;
}

static int
delete_item(struct client *client, uint64_t item, void *arg)
{
	const struct density *density = arg;

	return density->deleted[item] ? zc_del(client->pool, corpus_key(&density->corpus, item))
				      : 0;
}

static void
sleep_ms(long milliseconds)
{
	struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};

	nanosleep(&time, NULL);
}

static bool
same_memory(const struct zc_stats *a, const struct zc_stats *b)
{
	return a->data_bytes == b->data_bytes && a->index_bytes == b->index_bytes &&
	       a->control_bytes == b->control_bytes && a->resident_bytes == b->resident_bytes;
}

/* The keeper gives memory back a little later than it was freed. */
bool
density_measure(struct density *density, struct zc_stats *stats)
{
	struct zc_stats last = {0};
	int equal = 0;

	for (int tries = 0; equal < REST_SAMPLES && tries < REST_TIMEOUT_TRIES; tries++) {
		int result;

		*stats = (struct zc_stats){.struct_size = sizeof(*stats)};
		result = zc_stats(density->clients.client[0].pool, stats);
		if (result < 0) {
			fprintf(stderr, "statistics: %s\n", strerror(-result));
			return false;
		}
		equal = same_memory(stats, &last) ? equal + 1 : 0;
		last = *stats;
		sleep_ms(REST_INTERVAL_MS);
	}
	if (equal < REST_SAMPLES)
		fprintf(stderr, "the pool's memory does not come to rest\n");
	return equal >= REST_SAMPLES;
}

/*
 * Memory of the data segment. The kernel tells one number for the three segments, the allocator one
 * for each; where they disagree, the difference is charged to the data.
 */
static uint64_t
pool_bytes(const struct zc_stats *stats)
{
	uint64_t metadata = stats->index_bytes + stats->control_bytes;
	uint64_t by_kernel =
		stats->resident_bytes > metadata ? stats->resident_bytes - metadata : 0;

	return by_kernel > stats->data_bytes ? by_kernel : stats->data_bytes;
}

double
density_metadata(const struct zc_stats *stats)
{
	return ratio(stats->index_bytes + stats->control_bytes, stats->entries);
}

/* Marks 60 % of the items; the seed alone says which. */
static bool
choose_deleted(struct density *density, uint64_t items)
{
	uint64_t *order = malloc(items * sizeof(*order));
	uint64_t seed = density->seed;

	density->deleted = calloc(items, 1);
	if (!order || !density->deleted) {
		fprintf(stderr, "no memory for a list of %llu pages\n", (unsigned long long)items);
		free(order);
		return false;
	}
	random_order(random_next(&seed), order, items);
	for (uint64_t i = 0; i < items * DELETE_PERCENT / 100; i++)
		density->deleted[order[i]] = 1;
	free(order);
	return true;
}

static bool
compact(struct density *density, struct zc_compaction *compaction)
{
	struct zc_pool *pool = density->clients.client[0].pool;
	int result;

	*compaction = (struct zc_compaction){.struct_size = sizeof(*compaction)};
	result = zc_compact_start(pool, 0, compaction);
	while (result == 0) {
		result = zc_compact_status(pool, compaction);
		if (result < 0 || !compaction->running)
			break;
		progress("compacting", compaction->classes_done, compaction->classes_total);
		sleep_ms(5);
	}
	progress_end();
	if (result < 0)
		fprintf(stderr, "compacting: %s\n", strerror(-result));
	return result == 0;
}

static bool
measure_all(struct density *density, struct density_result *result)
{
	struct clients *clients = &density->clients;
	uint64_t items = density->corpus.count * density->copies;

	return clients_run(clients, "storing", 0, items, density_store, density) &&
	       density_measure(density, &result->stored) &&
	       clients_run(clients, "comparing", 0, items, density_verify, density) &&
	       choose_deleted(density, items) &&
	       clients_run(clients, "deleting", 0, items, delete_item, density) &&
	       density_measure(density, &result->after_delete) &&
	       clients_run(clients, "comparing", 0, items, density_verify, density) &&
	       compact(density, &result->compaction) &&
	       density_measure(density, &result->after_compact) &&
	       clients_run(clients, "comparing", 0, items, density_verify, density);
}

static void
set_count(json_t *json, const char *key, uint64_t count)
{
	json_object_set_new(json, key, json_integer((json_int_t)count));
}

static void
set_real(json_t *json, const char *key, double value)
{
	json_object_set_new(json, key, json_real(value));
}

static void
print_json(const struct density *density, const struct density_result *result)
{
	const struct zc_stats *stored = &result->stored, *compacted = &result->after_compact;
	json_t *json = json_object();

	set_count(json, "pages", stored->entries);
	set_count(json, "orig_bytes", stored->logical_bytes);
	set_count(json, "compr_bytes", stored->stored_bytes);
	set_count(json, "pool_bytes", pool_bytes(stored));
	set_real(json, "ratio", ratio(stored->logical_bytes, pool_bytes(stored)));
	set_real(json, "utilization", ratio(stored->stored_bytes, pool_bytes(stored)));
	set_count(json, "index_bytes", stored->index_bytes);
	set_count(json, "page_table_bytes", stored->control_bytes);
	set_real(json, "metadata_per_page", density_metadata(stored));
	set_count(json, "resident_bytes", stored->resident_bytes);
	set_count(json, "after_delete_pool_bytes", pool_bytes(&result->after_delete));
	set_count(json, "after_compact_pool_bytes", pool_bytes(compacted));
	set_real(json, "after_compact_utilization",
		 ratio(compacted->stored_bytes, pool_bytes(compacted)));
	set_count(json, "objects_moved", result->compaction.objects_moved);
	set_count(json, "moves_lower_bound", result->compaction.moves_lower_bound);
	set_count(json, "objects_packed", result->compaction.objects_packed);
	set_count(json, "objects_busy", result->compaction.objects_busy);
	set_count(json, "verified_pages", clients_verified(&density->clients));
	set_count(json, "mismatches", clients_mismatches(&density->clients));
	json_object_set_new(json, "codec", json_string(density->codec));
	set_count(json, "copies", density->copies);
	set_count(json, "seed", density->seed);
	json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(json);
}

static void
print_stage(const char *name, const struct zc_stats *stats)
{
	char pages[TEXT_SIZE], logical[TEXT_SIZE], compressed[TEXT_SIZE], pool[TEXT_SIZE];

	printf("%-16s %11s %11s %11s %11s %7.3f %12.4f %14.2f\n", name,
	       text_count(stats->entries, pages), text_bytes(stats->logical_bytes, logical),
	       text_bytes(stats->stored_bytes, compressed), text_bytes(pool_bytes(stats), pool),
	       ratio(stats->logical_bytes, pool_bytes(stats)),
	       ratio(stats->stored_bytes, pool_bytes(stats)), density_metadata(stats));
}

static void
print_table(const struct density *density, const struct density_result *result)
{
	char moved[TEXT_SIZE], bound[TEXT_SIZE], packed[TEXT_SIZE], freed[TEXT_SIZE];
	char compared[TEXT_SIZE], wrong[TEXT_SIZE];
	const struct zc_compaction *compaction = &result->compaction;

	printf("%s, %llu x %s\n\n", density->codec, (unsigned long long)density->copies,
	       density->path);
	printf("%-16s %11s %11s %11s %11s %7s %12s %14s\n", "", "pages", "logical", "compressed",
	       "pool", "ratio", "utilization", "metadata/page");
	print_stage("stored", &result->stored);
	print_stage("60 % deleted", &result->after_delete);
	print_stage("compacted", &result->after_compact);
	printf("\ncompaction: %s objects moved (lower bound %s) and %s packed, %s pages freed\n",
	       text_count(compaction->objects_moved, moved),
	       text_count(compaction->moves_lower_bound, bound),
	       text_count(compaction->objects_packed, packed),
	       text_count(compaction->pages_freed, freed));
	printf("compared: %s pages, %s wrong\n",
	       text_count(clients_verified(&density->clients), compared),
	       text_count(clients_mismatches(&density->clients), wrong));
}

static int
density_once(struct density *density)
{
	struct density_result result;

	if (!measure_all(density, &result))
		return 1;
	if (density->json)
		print_json(density, &result);
	else
		print_table(density, &result);
	return clients_mismatches(&density->clients) ? 1 : 0;
}

/* A service with room for every page uncompressed, that compacts only when told to. */
static bool
start_service(struct density *density, uint64_t items)
{
	char limit[TEXT_SIZE];
	const char *arguments[] = {
		"--limit", limit, "--codec", density->codec, "--pool", "default:compact=manual",
		NULL};

	snprintf(limit, sizeof(limit), "%llu",
		 (unsigned long long)(items * (BENCH_PAGE_SIZE + 128) + (64ULL << 20)));
	return service_start(&density->service, arguments);
}

static int
run_with_service(struct density *density)
{
	uint64_t items =
		density->sweep ? DENSITY_SWEEP_LAST : density->corpus.count * density->copies;
	int status = 1;

	if (!start_service(density, items))
		return 1;
	if (clients_open(&density->clients, density->service.socket, clients_default()))
		status = density->sweep ? density_sweep(density) : density_once(density);
	clients_close(&density->clients);
	free(density->deleted);
	return service_stop(&density->service) ? status : 1;
}

int
command_density(int argc, char **argv)
{
	struct density density = {.codec = "lz4", .copies = 1, .seed = 1};
	int status = parse_options(&density, argc, argv);

	if (status >= 0)
		return status;
	if (!corpus_open(&density.corpus, density.path, density.seed))
		return 1;
	status = run_with_service(&density);
	corpus_close(&density.corpus);
	return status;
}
