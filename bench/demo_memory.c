/* SPDX-License-Identifier: BSD-2-Clause */
#include "demo_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pages.h"

#define BUILD_SECONDS	20
#define PAGEMAP_PRESENT (1ULL << 63)

/* Each prints a line when its data is built and then waits for its input to end. */
static const struct {
	const char *interpreter, *option, *file;
} programs[] = {
	{"python3", "-I", "records.py"},
	{"perl", "-w", "log.pl"},
	{"awk", "-f", "tables.awk"},
};

#define PROGRAMS (sizeof(programs) / sizeof(programs[0]))

struct program {
	pid_t pid;
	int input, output; /* our ends of the pipes to its standard input and output */
};

bool
memory_init(struct memory *memory, uint64_t room)
{
	void *pages = mmap(NULL, room * BENCH_PAGE_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	*memory = (struct memory){.room = room};
	if (pages == MAP_FAILED) {
		fprintf(stderr, "no memory for %llu pages\n", (unsigned long long)room);
		return false;
	}
	memory->pages = pages;
	return true;
}

static void __attribute__((noreturn))
become_program(const char *interpreter, const char *option, const char *path, int input, int output,
	       pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	dup2(input, STDIN_FILENO);
	dup2(output, STDOUT_FILENO);
	execlp(interpreter, interpreter, option, path, (char *)NULL);
	_exit(127);
}

static bool
program_start(struct program *program, size_t number, const char *folder)
{
	char path[4096];
	int input[2], output[2];
	pid_t parent = getpid();

	*program = (struct program){.input = -1, .output = -1};
	snprintf(path, sizeof(path), "%s/%s", folder, programs[number].file);
	if (access(path, R_OK) < 0 || pipe2(input, O_CLOEXEC) < 0)
		return false;
	if (pipe2(output, O_CLOEXEC) < 0) {
		close(input[0]);
		close(input[1]);
		return false;
	}
	program->pid = fork();
	if (program->pid == 0)
		become_program(programs[number].interpreter, programs[number].option, path,
			       input[0], output[1], parent);
	close(input[0]);
	close(output[1]);
	program->input = input[1];
	program->output = output[0];
	return program->pid > 0;
}

/* True once it has printed something. */
static bool
program_ready(const struct program *program)
{
	struct pollfd wait = {.fd = program->output, .events = POLLIN};
	char byte;

	return program->pid > 0 && poll(&wait, 1, BUILD_SECONDS * 1000) == 1 &&
	       read(program->output, &byte, 1) == 1;
}

static void
program_end(struct program *program)
{
	if (program->pid > 0) {
		kill(program->pid, SIGKILL);
		waitpid(program->pid, NULL, 0);
	}
	if (program->input >= 0)
		close(program->input);
	if (program->output >= 0)
		close(program->output);
}

static bool
page_is_resident(int pagemap, uint64_t address)
{
	uint64_t entry;

	return pread(pagemap, &entry, sizeof(entry),
		     (off_t)(address / BENCH_PAGE_SIZE * sizeof(entry))) == sizeof(entry) &&
	       entry & PAGEMAP_PRESENT;
}

/* Copies the resident pages of one mapping, up to `room` pages in all. */
static void
copy_mapping(struct memory *memory, uint64_t room, uint64_t start, uint64_t end, int mem,
	     int pagemap)
{
	for (; start < end && memory->count < room; start += BENCH_PAGE_SIZE) {
		char *page = memory->pages + memory->count * BENCH_PAGE_SIZE;

		if (page_is_resident(pagemap, start) &&
		    pread(mem, page, BENCH_PAGE_SIZE, (off_t)start) == BENCH_PAGE_SIZE)
			memory->count++;
	}
}

static FILE *
open_maps(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	return fopen(path, "re");
}

static int
open_proc(pid_t pid, const char *file)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static void
copy_anonymous(struct memory *memory, uint64_t room, FILE *maps, int mem, int pagemap)
{
	char line[512];

	while (fgets(line, sizeof(line), maps)) {
		unsigned long start, end, inode;
		char mode[5];

		if (sscanf(line, "%lx-%lx %4s %*s %*s %lu", &start, &end, mode, &inode) == 4 &&
		    !strcmp(mode, "rw-p") && inode == 0)
			copy_mapping(memory, room, start, end, mem, pagemap);
	}
}

static void
copy_program(struct memory *memory, uint64_t room, pid_t pid)
{
	FILE *maps = open_maps(pid);
	int mem = open_proc(pid, "mem");
	int pagemap = open_proc(pid, "pagemap");

	if (maps && mem >= 0 && pagemap >= 0)
		copy_anonymous(memory, room, maps, mem, pagemap);
	if (maps)
		fclose(maps);
	if (mem >= 0)
		close(mem);
	if (pagemap >= 0)
		close(pagemap);
}

static void
add_source(struct memory *memory, const char *name)
{
	size_t length = strlen(memory->source);

	snprintf(memory->source + length, sizeof(memory->source) - length, "%s%s",
		 length ? ", " : "memory of ", name);
}

bool
memory_of_programs(struct memory *memory, const char *folder)
{
	struct program program[PROGRAMS];

	for (size_t i = 0; i < PROGRAMS; i++)
		program_start(&program[i], i, folder);
	for (size_t i = 0; i < PROGRAMS; i++) {
		/* An equal share of what is left, so that no program pushes out the next. */
		uint64_t before = memory->count;
		uint64_t share = (memory->room - before) / (PROGRAMS - i);

		if (program_ready(&program[i]))
			copy_program(memory, before + share, program[i].pid);
		if (memory->count > before)
			add_source(memory, programs[i].interpreter);
		program_end(&program[i]);
	}
	if (!memory->count)
		fprintf(stderr, "no memory of programs of our own could be read\n");
	return memory->count > 0;
}

static struct memory *walk_memory; /* nftw() hands nothing to its callback */

static int
copy_file(const char *path, const struct stat *st, int type, struct FTW *where)
{
	struct memory *memory = walk_memory;
	int fd;

	(void)where;
	if (type != FTW_F || !S_ISREG(st->st_mode) || st->st_size < BENCH_PAGE_SIZE)
		return 0;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return 0;
	while (memory->count < memory->room &&
	       read(fd, memory->pages + memory->count * BENCH_PAGE_SIZE, BENCH_PAGE_SIZE) ==
		       BENCH_PAGE_SIZE)
		memory->count++;
	close(fd);
	return memory->count == memory->room;
}

bool
memory_of_files(struct memory *memory, const char *folder)
{
	walk_memory = memory;
	nftw(folder, copy_file, 16, FTW_PHYS | FTW_MOUNT);
	snprintf(memory->source, sizeof(memory->source), "files under %s", folder);
	if (!memory->count)
		fprintf(stderr, "%s: no file of at least a page\n", folder);
	return memory->count > 0;
}

bool
memory_of_page_file(struct memory *memory, const char *path)
{
	struct corpus corpus;

	if (!corpus_open(&corpus, path, 0))
		return false;
	memory->count = corpus.count < memory->room ? corpus.count : memory->room;
	memcpy(memory->pages, corpus.pages, memory->count * BENCH_PAGE_SIZE);
	snprintf(memory->source, sizeof(memory->source), "%s", path);
	corpus_close(&corpus);
	return true;
}
