/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Everything that lies in shared memory, written down once.
 *
 * A pool is three memfds: control (header and page table), index (buckets), data (objects). The
 * engine alone maps them writable; clients map them read-only, so nothing here may hold a pointer,
 * a lock, or a type whose width depends on the build. All numbers are little endian, all offsets
 * count from the start of their memfd.
 *
 * What is not here: anything that can be rebuilt from these bytes (fullness lists, bitmaps, free
 * runs) lives in the engine's private memory, see zspage.h.
 *
 * A change of any offset or meaning below changes ZC_ABI_VERSION.
 */
#ifndef ZCACHED_SHM_LAYOUT_H
#define ZCACHED_SHM_LAYOUT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define ZC_POOL_MAGIC	  0x006465686361637aULL /* "zcached\0" read as a little-endian word */
#define ZC_ABI_VERSION	  1u
#define ZC_BYTE_ORDER	  0x01020304u
#define ZC_OS_PAGE_SIZE	  4096u
#define ZC_PAGE_SIZE_MIN  4096u
#define ZC_PAGE_SIZE_MAX  65536u
#define ZC_CHAIN_MAX	  16u /* pool pages in one zspage at most */
#define ZC_SHARD_BITS	  6u
#define ZC_SHARDS	  (1u << ZC_SHARD_BITS)
#define ZC_BUCKET_ENTRIES 10u
#define ZC_POOL_NAME_SIZE 64u

/* One page the cache knows: a swap area and its slot, a file and its page, a hash and 0. */
struct page_key {
	uint64_t object;
	uint64_t index;
};
static_assert(sizeof(struct page_key) == 16, "page_key");

/*
 * Location word: where an object's bytes are and how to read them. The size class is a function of
 * the stored length, so no field for it; the page table gives the zspage.
 *
 *   63   58 57  54 53              37 36                                  0
 *  +-------+------+------------------+-------------------------------------+
 *  | flags | codec|  stored length   |        offset in data / 8           |
 *  +-------+------+------------------+-------------------------------------+
 *      6      4           17                          37
 *
 * 37 bits of offset / 8 reach 1 TiB of data a pool. 17 bits of length hold 65536 itself.
 */
#define ZC_LOCATION_OFFSET_BITS 37u
#define ZC_LOCATION_LENGTH_BITS 17u
#define ZC_LOCATION_CODEC_BITS	4u
#define ZC_LOCATION_FLAG_BITS	6u
static_assert(ZC_LOCATION_OFFSET_BITS + ZC_LOCATION_LENGTH_BITS + ZC_LOCATION_CODEC_BITS +
			      ZC_LOCATION_FLAG_BITS ==
		      64,
	      "location word");
#define ZC_DATA_SIZE_MAX (1ULL << (ZC_LOCATION_OFFSET_BITS + 3))

/* How an object's stored bytes are encoded. The numbers are part of the layout. */
enum zc_codec {
	ZC_CODEC_RAW = 0,     /* the value itself; it did not compress */
	ZC_CODEC_LZ4 = 1,     /* one LZ4 block */
	ZC_CODEC_ZSTD = 2,    /* one zstd frame, no magic, no content size, no checksum */
	ZC_CODEC_POISON = 15, /* no object: the value was found damaged; offset and length are 0 */
};

/*
 * Flags. A value shorter than the pool's page is stored in one of two ways:
 * SHORT: the stored bytes begin with the value's length as a little-endian uint32 (counted in the
 * stored length), then the encoded bytes.
 * LACKS (two bits, 1 .. 3): a raw value that lacks so many bytes to a page, where the four bytes of
 * a length would not fit any more; the stored length is the page size.
 */
#define ZC_LOCATION_SHORT	0x1u
#define ZC_LOCATION_LACKS_SHIFT 1u
#define ZC_LOCATION_LACKS_MASK	0x3u

static inline uint64_t
location_pack(uint64_t offset, uint32_t length, enum zc_codec codec, unsigned flags)
{
	return offset >> 3 | (uint64_t)length << 37 | (uint64_t)codec << 54 | (uint64_t)flags << 58;
}

static inline uint64_t
location_offset(uint64_t word)
{
	return (word & ((1ULL << 37) - 1)) << 3;
}

static inline uint32_t
location_length(uint64_t word)
{
	return (uint32_t)(word >> 37 & 0x1ffff);
}

static inline enum zc_codec
location_codec(uint64_t word)
{
	return (enum zc_codec)(word >> 54 & 0xf);
}

static inline unsigned
location_flags(uint64_t word)
{
	return (unsigned)(word >> 58);
}

/*
 * Object header: the eight bytes in front of an object's stored bytes. A raw object fills its whole
 * zspage, so its header lies in the page table (page_group.object_header of its first page).
 *
 *   63                     32 31                      0
 *  +-------------------------+-------------------------+
 *  |        checksum         |      hash of the key    |
 *  +-------------------------+-------------------------+
 *
 * The hash lets compaction and recovery find the index entry of an object they come across: the
 * shard and both candidate buckets are functions of these 32 bits. The checksum covers the stored
 * bytes, their length and the codec (object.h).
 */
#define ZC_OBJECT_HEADER_SIZE 8u

static inline uint64_t
object_header_pack(uint32_t hash, uint32_t checksum)
{
	return (uint64_t)checksum << 32 | hash;
}

/*
 * Bucket header word. Every change of a bucket is one store of this word, so a bucket is never
 * "being changed":
 *
 *   63                                      20 19        10 9         0
 *  +------------------------------------------+------------+-----------+
 *  |                 sequence                 |   valid    |same-filled|
 *  +------------------------------------------+------------+-----------+
 *                      44                          10           10
 *
 * Bit i of "valid" says that entry[i] is one; bit i of "same-filled" that its word is the eight
 * bytes that fill the page and not a location. The sequence grows by one at each store.
 */
#define ZC_BUCKET_VALID_SHIFT	 10u
#define ZC_BUCKET_SEQUENCE_SHIFT 20u
#define ZC_BUCKET_SLOT_MASK	 ((1u << ZC_BUCKET_ENTRIES) - 1)

struct index_entry {
	struct page_key key;
	uint64_t word; /* location, or the fill word of a same-filled page */
};
static_assert(sizeof(struct index_entry) == 24, "index_entry");

struct index_bucket {
	uint64_t header;
	struct index_entry entry[ZC_BUCKET_ENTRIES];
	uint64_t spare; /* zero */
};
static_assert(sizeof(struct index_bucket) == 256, "index_bucket");
static_assert(offsetof(struct index_bucket, entry) == 8, "index_bucket.entry");
static_assert(offsetof(struct index_bucket, spare) == 248, "index_bucket.spare");

/*
 * Index memfd: bucket b of shard s is at (b * ZC_SHARDS + s) * 256, so that all shards grow at the
 * end of the file. A row of one bucket for each shard is a stripe.
 */
#define ZC_STRIPE_SIZE (ZC_SHARDS * (uint32_t)sizeof(struct index_bucket))

/*
 * Shard word: linear hashing's state. A shard has 2^level + split buckets.
 *
 *   63            40 39    32 31                          0
 *  +----------------+--------+-----------------------------+
 *  |       0        | level  |            split            |
 *  +----------------+--------+-----------------------------+
 */
static inline uint64_t
shard_word_pack(unsigned level, uint32_t split)
{
	return (uint64_t)level << 32 | split;
}

/*
 * Page table: one entry for each pool page of the data memfd, in groups of 64 behind the header
 * page. meta is zero for a page that belongs to no zspage, else
 *
 *    15  14   12 11      8 7            0
 *  +----+-------+---------+--------------+
 *  |used|   0   |distance | size class   |
 *  +----+-------+---------+--------------+
 *
 * where distance counts the pool pages back to the first page of the zspage. An entry is written
 * before the first object of the zspage is published and cleared after its last one is freed.
 */
#define ZC_GROUP_PAGES	 64u
#define ZC_PAGE_USED	 0x8000u
#define ZC_GROUPS_OFFSET 4096u

struct page_group {
	uint16_t meta[ZC_GROUP_PAGES];
	uint64_t object_header[ZC_GROUP_PAGES]; /* of a raw object that begins in this page */
};
static_assert(sizeof(struct page_group) == 640, "page_group");
static_assert(offsetof(struct page_group, object_header) == 128, "page_group.object_header");

static inline uint16_t
page_meta_pack(unsigned size_class, unsigned distance)
{
	return (uint16_t)(ZC_PAGE_USED | distance << 8 | size_class);
}

enum zc_pool_state {
	ZC_POOL_LIVE = 1,
	ZC_POOL_RECOVERING = 2, /* an engine is rebuilding: use the socket, it will wait */
	ZC_POOL_DEAD = 3,	/* destroyed, replaced or set aside: for ever */
};

enum zc_pool_kind {
	ZC_KIND_CACHE = 1,   /* may lose entries by policy */
	ZC_KIND_STORE = 2,   /* refuses when full */
	ZC_KIND_DURABLE = 3, /* swap and disks: fixed in size, populated and locked before use */
};

/*
 * The first page of the control memfd. Up to `checksum` it is written once, before the magic; the
 * rest changes while the pool lives and is read one word at a time.
 */
struct pool_header {
	uint64_t magic; /* ZC_POOL_MAGIC; written last */
	uint32_t abi_version;
	uint32_t header_size; /* sizeof(struct pool_header) */
	uint32_t byte_order;  /* ZC_BYTE_ORDER */
	uint32_t page_size;   /* bytes of a pool page: 4096 .. 65536, a power of two */
	uint32_t kind;	      /* enum zc_pool_kind */
	uint32_t owner_uid;
	uint64_t pool_id;     /* random; names this pool for ever */
	uint64_t hash_seed;   /* random; seeds the hash of keys */
	uint64_t data_max;    /* bytes the data memfd can grow to; clients reserve as much */
	uint64_t index_max;   /* the same for the index memfd */
	uint64_t control_max; /* and for the control memfd */
	uint64_t dictionary;  /* id of the trained dictionary, 0: none */
	uint8_t name[ZC_POOL_NAME_SIZE]; /* zero-terminated */
	uint64_t checksum;		 /* XXH3 of the bytes from abi_version up to here */

	uint8_t gap[512 - 152];

	uint32_t state; /* 512: enum zc_pool_state */
	uint32_t state_pad;
	uint64_t epoch;	     /* 520: + 1 at each recovery */
	uint64_t data_size;  /* 528: bytes of data that may hold objects; grows only */
	uint64_t index_size; /* 536: bytes of index that hold buckets; grows only */
	uint8_t gap2[1024 - 544];

	uint64_t shard_word[ZC_SHARDS]; /* 1024 */
	uint8_t gap3[4096 - 1536];
};
static_assert(sizeof(struct pool_header) == 4096, "pool_header");
static_assert(offsetof(struct pool_header, page_size) == 20, "pool_header.page_size");
static_assert(offsetof(struct pool_header, pool_id) == 32, "pool_header.pool_id");
static_assert(offsetof(struct pool_header, name) == 80, "pool_header.name");
static_assert(offsetof(struct pool_header, checksum) == 144, "pool_header.checksum");
static_assert(offsetof(struct pool_header, state) == 512, "pool_header.state");
static_assert(offsetof(struct pool_header, epoch) == 520, "pool_header.epoch");
static_assert(offsetof(struct pool_header, data_size) == 528, "pool_header.data_size");
static_assert(offsetof(struct pool_header, index_size) == 536, "pool_header.index_size");
static_assert(offsetof(struct pool_header, shard_word) == 1024, "pool_header.shard_word");

/*
 * A channel: one memfd for a client connection, written by both sides, trusted by neither. Behind its
 * header lie one ring for each worker and then the page slots:
 *
 *	header | ring 0 | ring 1 | ... | slot 0 | slot 1 | ...
 *
 * A ring carries requests from client to worker and completions back. Its five words lie on four cache
 * lines, by who writes them. Indices count up for ever and are taken modulo `entries`. Each side keeps its
 * own index in private memory and only publishes it here; what it reads of the other's is checked.
 */
#define ZC_CHANNEL_MAGIC       0x006c656e6e616863ULL /* "channel\0" */
#define ZC_CHANNEL_ENTRIES_MAX 4096u
#define ZC_CHANNEL_SLOTS_MAX   4096u

struct channel_header {
	uint64_t magic; /* ZC_CHANNEL_MAGIC; written last */
	uint32_t abi_version;
	uint32_t header_size; /* sizeof(struct channel_header) */
	uint32_t rings;	      /* workers: ring i is served by worker i */
	uint32_t entries;     /* of each ring and direction: a power of two */
	uint32_t slots;
	uint32_t slot_size; /* bytes: the page size of the pools that it is for */
	uint64_t rings_offset;
	uint64_t ring_stride; /* bytes from a ring to the next */
	uint64_t slots_offset;
	uint64_t size; /* bytes of the memfd */
	uint8_t gap[128 - 64];

	/*
	 * 128: the engine adds 1, then wakes it as a futex, when a completion index passes a ring's
	 * wake_at. A client reads it, looks at the completions once more, and waits on it.
	 */
	uint32_t wakes;
	uint8_t gap2[4096 - 132];
};
static_assert(sizeof(struct channel_header) == 4096, "channel_header");
static_assert(offsetof(struct channel_header, rings_offset) == 32, "channel_header.rings_offset");
static_assert(offsetof(struct channel_header, size) == 56, "channel_header.size");
static_assert(offsetof(struct channel_header, wakes) == 128, "channel_header.wakes");

enum zc_channel_operation {
	ZC_CHANNEL_PUT = 1,
	ZC_CHANNEL_GET = 2,
	ZC_CHANNEL_DELETE = 3,
	ZC_CHANNEL_EXISTS = 4,
};

#define ZC_CHANNEL_KEEP_OLD 0x1u /* of a put, see ZC_KEEP_OLD in zclient.h */

struct channel_request {
	uint64_t cookie; /* comes back in the completion */
	uint64_t object; /* key */
	uint64_t index;
	uint32_t pool;	    /* handle, from PoolOpen on the connection */
	uint32_t slot;	    /* of the page: put reads it, get writes it */
	uint32_t length;    /* bytes of the value (put), or room for it (get) */
	uint16_t operation; /* enum zc_channel_operation */
	uint16_t flags;
	uint64_t spare[3]; /* zero */
};
static_assert(sizeof(struct channel_request) == 64, "channel_request");
static_assert(offsetof(struct channel_request, operation) == 36, "channel_request.operation");

struct channel_completion {
	uint64_t cookie;
	int32_t status; /* 0, the length of a fetched value, or a negative errno */
	uint32_t spare; /* zero */
};
static_assert(sizeof(struct channel_completion) == 16, "channel_completion");

struct channel_ring {
	/* written by the client */
	uint32_t submit_tail; /* requests there are */
	uint8_t gap[64 - 4];
	uint32_t complete_head; /* completions taken */
	uint32_t wake_at;	/* wake the client when complete_tail becomes this */
	uint8_t gap2[64 - 8];
	/* written by the engine */
	uint32_t submit_head; /* requests taken */
	uint32_t need_wakeup; /* 1: the worker sleeps, write to its eventfd after a submit */
	uint8_t gap3[64 - 8];
	uint32_t complete_tail; /* completions there are */
	uint8_t gap4[64 - 4];
	/* struct channel_request[entries], then struct channel_completion[entries] */
};
static_assert(sizeof(struct channel_ring) == 256, "channel_ring");
static_assert(offsetof(struct channel_ring, complete_head) == 64, "channel_ring.complete_head");
static_assert(offsetof(struct channel_ring, submit_head) == 128, "channel_ring.submit_head");
static_assert(offsetof(struct channel_ring, complete_tail) == 192, "channel_ring.complete_tail");

#endif
