/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes pages.bin, the sample of memory pages that tests use (README.md here says what is in it).
 *
 *	cc -std=gnu11 -O2 -o make-pages make-pages.c && ./make-pages > pages.bin
 *
 * It maps an arena, builds in it what programs keep on their heaps (objects with reference counts,
 * chained hash tables, trees, text, arrays of numbers, freed blocks with old contents) and writes
 * the arena out. Address and random seed are fixed and nothing of the C library's lies in the
 * arena, so the output is the same on every 64-bit little-endian machine.
 */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE	      4096u
#define ARENA_PAGES   96u
#define ARENA_SIZE    (ARENA_PAGES * PAGE)
#define ARENA_ADDRESS ((void *)0x555555756000)
#define BLOCK_UNIT    16u
#define FREE_LISTS    64u

/* In front of each block, as allocators have it: the size, and a low bit for "in use". */
struct block {
	uint64_t size;
	union {
		struct block *next_free;
		unsigned char bytes[8];
	} u;
};

struct arena {
	unsigned char *start;
	unsigned char *next;
	unsigned char *end; /* of the section being filled */
	struct block *free_list[FREE_LISTS];
	uint64_t random;
};

static struct arena arena = {.random = 20240229};

static uint64_t
random_next(void)
{
	uint64_t z = arena.random += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static uint32_t
random_below(uint32_t bound)
{
	return (uint32_t)(random_next() >> 32) % bound;
}

/* Small numbers are common, large ones rare. */
static uint32_t
random_skewed(uint32_t bound)
{
	return random_below(random_below(random_below(bound) + 1) + 1);
}

static struct block *
block_of(void *memory)
{
	return (struct block *)((unsigned char *)memory - sizeof(uint64_t));
}

/* NULL when the section is full: that ends each of the builders below. */
static void *
arena_alloc(size_t bytes)
{
	uint64_t size = (bytes + sizeof(uint64_t) + BLOCK_UNIT - 1) / BLOCK_UNIT * BLOCK_UNIT;
	struct block **list = &arena.free_list[size / BLOCK_UNIT % FREE_LISTS];
	struct block *block = *list;

	if (block && (block->size & ~1ull) == size) {
		*list = block->u.next_free;
	} else {
		if ((size_t)(arena.end - arena.next) < size)
			return NULL;
		block = (struct block *)arena.next;
		arena.next += size;
	}
	block->size = size | 1;
	return block->u.bytes;
}

/* Leaves the old contents but for the first word, as real allocators do. */
static void
arena_free(void *memory)
{
	struct block *block = block_of(memory);
	struct block **list = &arena.free_list[block->size / BLOCK_UNIT % FREE_LISTS];

	block->size &= ~1ull;
	block->u.next_free = *list;
	*list = block;
}

/* The next `pages` pages are one builder's; blocks freed in other sections are not for it. */
static void
section_begin(unsigned pages)
{
	arena.next = arena.end;
	arena.end += pages * PAGE;
	memset(arena.free_list, 0, sizeof(arena.free_list));
}

static const char *const words[] = {
	"account", "address",  "archive",  "balance", "branch",	 "buffer",  "cache",	"channel",
	"client",  "column",   "config",   "content", "counter", "created", "customer", "default",
	"delay",   "device",   "document", "driver",  "element", "email",   "enabled",	"engine",
	"entry",   "error",    "event",	   "filter",  "folder",	 "format",  "group",	"handler",
	"header",  "history",  "image",	   "index",   "invoice", "item",    "language", "length",
	"limit",   "list",     "market",   "member",  "message", "method",  "monitor",	"network",
	"number",  "object",   "option",   "order",   "owner",	 "package", "parent",	"payment",
	"price",   "process",  "product",  "profile", "project", "query",   "record",	"region",
	"report",  "request",  "result",   "route",   "sample",	 "schema",  "server",	"session",
	"signal",  "source",   "status",   "stream",  "summary", "system",  "table",	"target",
	"team",	   "template", "ticket",   "title",   "token",	 "total",   "transfer", "update",
	"user",	   "value",    "vendor",   "version", "volume",	 "warning", "window",	"worker",
};
#define WORDS (sizeof(words) / sizeof(words[0]))

static const char *
random_word(void)
{
	return words[random_below(WORDS)];
}

/*
 * For calls that take several words: C leaves it to the compiler in which order a call's arguments
 * are evaluated, so no call below has two random ones.
 */
static void
random_words(const char *word[], unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		word[i] = random_word();
}

static uint64_t
text_hash(const char *text)
{
	uint64_t hash = 14695981039346656037u;

	while (*text)
		hash = (hash ^ (unsigned char)*text++) * 1099511628211u;
	return hash;
}

/*
 * Objects as interpreters have them: count, type, payload. No struct here has padding: what a
 * compiler leaves there is its own affair, and would be in the sample.
 */
struct object_type {
	uint64_t references;
	const struct object_type *type;
	char name[16];
	uint64_t basic_size;
	uint64_t flags;
};

struct object {
	uint64_t references;
	const struct object_type *type;
};

struct integer_object {
	struct object base;
	uint64_t digits;
	uint64_t value;
};

struct text_object {
	struct object base;
	uint64_t length;
	uint64_t hash;
	uint64_t state;
	char bytes[];
};

struct table_entry {
	uint64_t hash;
	struct object *key;
	struct object *value;
};

struct table_object {
	struct object base;
	uint64_t used;
	uint64_t version;
	struct table_entry *entries;
	uint8_t *slots;
};

enum object_kind {
	OBJECT_INTEGER,
	OBJECT_TEXT,
	OBJECT_TABLE,
	OBJECT_KINDS,
};

static struct object_type *types[OBJECT_KINDS];

static void
types_make(void)
{
	static const char *const names[OBJECT_KINDS] = {"integer", "text", "table"};

	for (unsigned i = 0; i < OBJECT_KINDS; i++) {
		types[i] = arena_alloc(sizeof(*types[i]));
		*types[i] = (struct object_type){1000 + random_below(5000), types[0], "", 32,
						 0x85100 + i};
		memcpy(types[i]->name, names[i], strlen(names[i]));
	}
}

static struct object *
integer_make(void)
{
	struct integer_object *integer = arena_alloc(sizeof(*integer));

	if (!integer)
		return NULL;
	*integer = (struct integer_object){{1, types[OBJECT_INTEGER]}, 1, random_skewed(1u << 30)};
	return &integer->base;
}

static struct object *
text_make(const char *bytes)
{
	size_t length = strlen(bytes);
	struct text_object *text = arena_alloc(sizeof(*text) + length + 1);

	if (!text)
		return NULL;
	*text = (struct text_object){{1, types[OBJECT_TEXT]}, length, text_hash(bytes), 0xe4};
	memcpy(text->bytes, bytes, length + 1);
	return &text->base;
}

static struct object *
random_text_make(void)
{
	const char *word[3];
	char bytes[80];

	random_words(word, 3);
	if (random_below(4) == 0)
		snprintf(bytes, sizeof(bytes), "%s.%s@%s%u.example", word[0], word[1], word[2],
			 random_below(90));
	else
		snprintf(bytes, sizeof(bytes), "%s_%s", word[0], word[1]);
	return text_make(bytes);
}

static struct object *
random_value(struct object *shared[], unsigned count)
{
	unsigned dice = random_below(10);

	if (dice < 3)
		return integer_make();
	if (dice < 5)
		return random_text_make();
	shared[dice % count]->references++;
	return shared[random_below(count)];
}

/* A table with the same field names as all others, as the rows of a result have. */
static struct object *
table_make(struct object *shared[], unsigned count)
{
	unsigned fields = 4 + random_below(4);
	struct table_object *table = arena_alloc(sizeof(*table));
	struct table_entry *entries = arena_alloc(8 * sizeof(*entries));
	uint8_t *slots = arena_alloc(16);

	if (!table || !entries || !slots)
		return NULL;
	memset(slots, 0xff, 16);
	memset(entries, 0, 8 * sizeof(*entries));
	for (unsigned i = 0; i < fields; i++) {
		struct text_object *key = (struct text_object *)shared[i];

		key->base.references++;
		slots[key->hash % 16] = (uint8_t)i;
		entries[i] =
			(struct table_entry){key->hash, &key->base, random_value(shared, count)};
	}
	*table = (struct table_object){
		{1, types[OBJECT_TABLE]}, fields, random_below(9000), entries, slots};
	return &table->base;
}

static void
objects_section(unsigned pages)
{
	struct object *shared[12];

	section_begin(pages);
	types_make();
	for (unsigned i = 0; i < 12; i++)
		shared[i] = random_text_make();
	while (table_make(shared, 12))
		;
}

/* Records on the chains of a hash table. */
struct record {
	struct record *next;
	uint64_t id;
	char *name;
	uint32_t created;
	uint32_t flags;
	int64_t balance;
	struct record *parent;
	uint64_t state;
};

static char *
name_make(void)
{
	const char *word[2];
	char text[64];
	char *name;
	int length;

	random_words(word, 2);
	length = snprintf(text, sizeof(text), "%s %s %u", word[0], word[1], random_skewed(100000));
	name = arena_alloc((size_t)length + 1);
	return name ? memcpy(name, text, (size_t)length + 1) : NULL;
}

static struct record *
record_make(uint64_t id, struct record **chain, struct record *parent)
{
	struct record *record = arena_alloc(sizeof(*record));
	char *name = name_make();

	if (!record || !name)
		return NULL;
	*record = (struct record){.next = *chain, .id = id, .name = name, .parent = parent};
	record->created = 1700000000u + (uint32_t)id * 37 + random_below(30);
	record->flags = 1u << random_below(6);
	record->balance = (int64_t)random_skewed(1u << 24) * 100;
	record->state = random_below(4);
	*chain = record;
	return record;
}

struct hash_table {
	struct record *chain[512];
};

static void
hash_table_section(unsigned pages)
{
	struct hash_table *table;
	struct record *record = NULL;
	uint64_t id = 410000;

	section_begin(pages);
	table = arena_alloc(sizeof(*table));
	memset(table, 0, sizeof(*table));
	do {
		struct record *parent = random_below(3) ? record : NULL;

		record = record_make(id, &table->chain[id * 0x9e3779b9u >> 16 & 511], parent);
		id += 1 + random_below(5);
	} while (record);
}

struct tree_node {
	struct tree_node *left;
	struct tree_node *right;
	uint64_t parent_colour; /* the colour is the low bit */
	uint64_t key;
	double weight;
};

static struct tree_node *
tree_insert(struct tree_node **root, uint64_t key)
{
	struct tree_node **at = root, *parent = NULL, *node = arena_alloc(sizeof(*node));

	if (!node)
		return NULL;
	while (*at) {
		parent = *at;
		at = key < parent->key ? &parent->left : &parent->right;
	}
	*node = (struct tree_node){NULL, NULL, (uint64_t)(uintptr_t)parent | (key & 1), key,
				   random_below(1000) / 8.0};
	*at = node;
	return node;
}

static void
tree_section(unsigned pages)
{
	struct tree_node *root = NULL;

	section_begin(pages);
	while (tree_insert(&root, random_below(1u << 20) * 8ull))
		;
}

static void
path_write(char *memory, size_t size)
{
	const char *word[3];

	random_words(word, 3);
	snprintf(memory, size, "/%s/%s/%s", word[0], word[1], word[2]);
}

/* Blocks of many sizes, freed and taken again by others. */
static void
churn_section(unsigned pages)
{
	void *held[280] = {NULL};

	section_begin(pages);
	for (;;) {
		unsigned i = random_below(280);
		size_t size = 16u << random_below(5);

		if (held[i])
			arena_free(held[i]);
		held[i] = arena_alloc(size);
		if (!held[i])
			return;
		if (random_below(2))
			memset(held[i], 0, size);
		else
			path_write(held[i], size);
	}
}

__attribute__((format(printf, 1, 2))) static int
text_append(const char *format, ...)
{
	char line[512];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(line, sizeof(line), format, arguments);
	va_end(arguments);
	if (arena.end - arena.next < length)
		return 0;
	memcpy(arena.next, line, (size_t)length);
	arena.next += length;
	return 1;
}

static void
document_section(unsigned pages)
{
	const char *word[6];
	unsigned id = 7000;
	uint32_t number;

	section_begin(pages);
	do {
		random_words(word, 6);
		number = random_skewed(100000);
	} while (text_append(
		"{\"id\":%u,\"%s\":\"%s\",\"%s\":%u,\"tags\":[\"%s\",\"%s\"],\"%s\":%s},", id++,
		word[0], word[1], word[2], number, word[3], word[4], word[5],
		number & 1 ? "true" : "null"));
}

static void
log_section(unsigned pages)
{
	const char *word[3];
	unsigned second = 0;
	uint32_t number;

	section_begin(pages);
	do {
		random_words(word, 3);
		number = random_below(1u << 20);
		second += number % 3;
	} while (text_append("2024-02-29 12:%02u:%02u.%03u %s [%s-%u] %s %s took %u ms\n",
			     second / 60 % 60, second % 60, number / 7 % 1000,
			     number & 7 ? "INFO" : "WARN", word[0], number / 11 % 8, word[1],
			     word[2], random_skewed(5000)));
}

/* Text of two bytes a character. */
static void
wide_text_section(unsigned pages)
{
	section_begin(pages);
	while (arena.end - arena.next >= 64) {
		for (const char *at = random_word(); *at; at++, arena.next += 2)
			arena.next[0] = (unsigned char)*at;
		*arena.next = ' ';
		arena.next += 2;
	}
}

/* A random walk; sums of eighths are exact, so every machine gets the same bits. */
static void
double_section(unsigned pages)
{
	double value = 2000;

	section_begin(pages);
	for (double *at = (double *)arena.next; at < (double *)arena.end; at++) {
		value += ((int)random_below(2001) - 1000) / 8.0;
		*at = value;
	}
}

static void
integer_section(unsigned pages)
{
	uint32_t value = 0;

	section_begin(pages);
	for (uint32_t *at = (uint32_t *)arena.next; at < (uint32_t *)arena.end; at++)
		*at = value += 1 + random_skewed(300);
}

/* Mostly zero: a bitmap, a table just begun. */
static void
sparse_section(unsigned pages)
{
	uint64_t *at;

	section_begin(pages);
	at = (uint64_t *)arena.next;
	for (unsigned i = 0; i < pages * 24; i++) {
		uint32_t place = random_below(pages * PAGE / 8);

		at[place] = i % 4 ? 1ull << random_below(64) : (uintptr_t)(at + i);
	}
}

static void
random_section(unsigned pages)
{
	section_begin(pages);
	for (uint64_t *at = (uint64_t *)arena.next; at < (uint64_t *)arena.end; at++)
		*at = random_next();
}

/* One word repeated; the last page of all but for its last byte. */
static void
same_filled_section(void)
{
	static const uint64_t fills[] = {
		0, 0, 0, UINT64_MAX, 0x0101010101010101, 0xdeadbeef00c0ffee, 0xdeadbeef00c0ffee};
	const unsigned count = sizeof(fills) / sizeof(fills[0]);

	section_begin(count);
	for (uint64_t *at = (uint64_t *)arena.next, i = 0; i < count * PAGE / 8; i++)
		at[i] = fills[i * 8 / PAGE];
	arena.end[-1] ^= 1;
}

static int
arena_map(void)
{
	arena.start = mmap(ARENA_ADDRESS, ARENA_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (arena.start != ARENA_ADDRESS) {
		perror("make-pages: the arena's address is taken");
		return -1;
	}
	arena.end = arena.start;
	return 0;
}

int
main(void)
{
	if (arena_map() < 0)
		return EXIT_FAILURE;
	objects_section(28);
	hash_table_section(14);
	tree_section(8);
	churn_section(8);
	document_section(5);
	log_section(5);
	wide_text_section(2);
	double_section(3);
	integer_section(4);
	sparse_section(6);
	random_section(6);
	same_filled_section();
	if (arena.end != arena.start + ARENA_SIZE) {
		fprintf(stderr, "make-pages: sections of %td bytes\n", arena.end - arena.start);
		return EXIT_FAILURE;
	}
	if (fwrite(arena.start, PAGE, ARENA_PAGES, stdout) != ARENA_PAGES || fflush(stdout) != 0) {
		perror("make-pages: write");
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
