/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzes the engine's side of a channel: any bytes over the client's rings between turns of the workers, among good
 * requests. Whatever they are, the client is served or ended, and another one notices nothing.
 *
 * An input is a list of commands, each a byte and what it needs:
 *
 *	0	write: offset in the rings (2 bytes), count - 1 (1 byte, 16 at most), the bytes
 *	1	a request: operation, index of its key, slot, length / 64, flags
 *	2	a turn of the worker in bit 2, its doorbell rung before if bit 3 is set
 *	3	reap all completions of the ring in bit 2
 *
 * where the low two bits of the byte are the command. Run by libFuzzer; all workers live in its one thread.
 */
#include <stdint.h>

#include "../unit/serve_fixture.h"

#define SLOTS	3u
#define ENTRIES 4u

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct fixture fixture;
static struct client witness;
static uint64_t witness_round;

struct input {
	const uint8_t *at, *end;
};

static uint8_t
next_byte(struct input *input)
{
	return input->at < input->end ? *input->at++ : 0;
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	fixture_open(&fixture, 4096);
	client_open(&fixture, &witness, 1, SLOTS, ENTRIES, false);
	return 0;
}

/* ---- commands ---- */

static void
write_bytes(struct client *client, struct input *input)
{
	uint64_t room = FIXTURE_WORKERS * client->memory.ring_stride;
	uint64_t offset = next_byte(input);

	offset = (offset << 8 | next_byte(input)) % room;
	for (unsigned count = next_byte(input) % 16 + 1; count && offset < room; count--)
		client->memory.rings[offset++] = (char)next_byte(input);
}

static void
send_request(struct client *client, struct input *input)
{
	struct channel_request request = {.cookie = 1, .pool = client->pool};

	request.operation = next_byte(input);
	request.index = next_byte(input);
	request.slot = next_byte(input);
	request.length = 64u * next_byte(input);
	request.flags = next_byte(input);
	client_submit(&fixture, client, &request);
}

static void
turn(struct client *client, unsigned worker, bool doorbell)
{
	uint64_t one = 1;

	if (doorbell)
		require(write(client->channel->ring[worker].doorbell_fd, &one, 8) == 8);
	pump(&fixture);
	serve_turn(&fixture.engine.worker[worker]);
	pump(&fixture);
}

static void
reap_all(struct client *client, unsigned ring)
{
	struct channel_completion completion;

	while (channel_reap(&client->ring[ring], &completion) == 1)
		;
	channel_reaped(&client->ring[ring]);
}

static void
command(struct client *client, struct input *input)
{
	uint8_t byte = next_byte(input);

	switch (byte & 3) {
	case 0:
		write_bytes(client, input);
		break;
	case 1:
		send_request(client, input);
		break;
	case 2:
		turn(client, byte >> 2 & 1, byte >> 3 & 1);
		break;
	default:
		reap_all(client, byte >> 2 & 1);
	}
}

/* ---- the other client ---- */

static int32_t
witness_call(enum zc_channel_operation operation, uint64_t index)
{
	struct channel_request request = {.cookie = index,
					  .object = UINT64_MAX,
					  .index = index,
					  .pool = witness.pool,
					  .length = 4096,
					  .operation = (uint16_t)operation};
	struct page_key key = {request.object, request.index};
	struct channel_end *ring = &witness.ring[ring_of(&fixture, &key)];
	struct channel_completion completion;

	client_submit(&fixture, &witness, &request);
	serve_all(&fixture);
	require(channel_reap(ring, &completion) == 1);
	require(completion.cookie == index);
	channel_reaped(ring);
	return completion.status;
}

static void
ask_the_witness(void)
{
	uint64_t index = witness_round++ % 64;
	char *page = channel_slot(&witness.memory, 0);

	memset(page, (int)index, 4096);
	page[100] = 'w';
	require(witness_call(ZC_CHANNEL_PUT, index) == 0);
	memset(page, 0xff, 4096);
	require(witness_call(ZC_CHANNEL_GET, index) == 4096);
	require(page[100] == 'w' && page[4095] == (char)index);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, data + size};
	uint64_t errors = fixture.engine.worker[0].count.protocol_errors;
	struct client client;
	bool ended = false;

	client_open(&fixture, &client, 0, SLOTS, ENTRIES, false);
	while (input.at < input.end && !ended) {
		command(&client, &input);
		ended = client_is_ended(&client);
	}
	ask_the_witness();
	if (client_is_ended(&client))
		require(fixture.engine.worker[0].count.protocol_errors == errors + 1);
	client_close(&fixture, &client);
	require(fixture.engine.connections == 1 && fixture.engine.doorbells == FIXTURE_WORKERS);
	return 0;
}
