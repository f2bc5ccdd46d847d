/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests for shared memory. Descriptors go with the first byte of their answer, so what was packed
 * before is sent first; while the client does not read that, the request waits.
 */
#include "share_request.h"

#include <errno.h>
#include <unistd.h>

#include "atomic.h"
#include "client_channel.h"
#include "connection.h"
#include "engine_private.h"
#include "reply.h"
#include "worker.h"

static const char unread[] = "read the answers with descriptors that were sent before";

static const char *
send_text(int error)
{
	return error == -EAGAIN ? unread : "the descriptors could not be sent";
}

/* ---- a pool's memory ---- */

/* 0, or why it cannot be mapped. */
static int
pool_files(struct pool_entry *entry, int fd[POOL_FILES])
{
	if (!entry || !pool_entry_alive(entry))
		return -EBADF;
	/* Relaxed: who is just too early has it mapped like those before. */
	if (load_relaxed(&entry->unshared))
		return -EOPNOTSUPP;
	return pool_read_only(entry->pool, fd);
}

static void
answer_pool(struct connection *connection, uint64_t id, struct pool_entry *entry,
	    const int fd[POOL_FILES])
{
	int error =
		map_notes_add(&entry->mapped, connection->pid, connection->uid, connection->name);

	if (error) {
		reply_error(connection, id, error, "no memory");
		return;
	}
	error = reply_pool_mapped(connection, id, pool_id(entry->pool), fd, POOL_FILES);
	if (error)
		reply_error(connection, id, error, send_text(error));
}

bool
share_request_pool(struct connection *connection, const Zcache__V1__Request *request)
{
	struct pool_entry *entry = handle_find(connection->handles, request->pool_map->pool);
	int fd[POOL_FILES];
	int error = pool_files(entry, fd);

	if (error == -EBADF)
		reply_error(connection, request->id, error,
			    "no such handle on this connection, or its pool was destroyed");
	else if (error)
		reply_error(connection, request->id, error, "this pool's memory is not shared");
	else if (connection_flush(connection))
		answer_pool(connection, request->id, entry, fd);
	else
		return connection->ended;
	return true;
}

/* ---- a channel ---- */

static const char *
channel_text(int error)
{
	switch (-error) {
	case EINVAL:
		return "a slot is as long as a page: a power of two from 4096 to 65536";
	case EEXIST:
		return "the connection has a channel of that slot size";
	case ENOSPC:
		return "the memory for channels is used up: of this connection, or of the service";
	case EMFILE:
	case ENFILE:
		return "the files for channels are used up";
	case EOPNOTSUPP:
		return "there are no channels: the service has too many workers";
	case ESRCH:
		return "the process that connected has ended";
	default:
		return "no memory for a channel";
	}
}

static void
fill_descriptors(const struct client_channel *channel, int memory_fd, int fd[])
{
	fd[0] = memory_fd;
	for (uint32_t i = 0; i < channel->shared.geometry.rings; i++)
		fd[1 + i] = channel->ring[i].doorbell_fd;
}

/* Takes the channel and its descriptor over. */
static void
answer_channel(struct connection *connection, uint64_t id, struct client_channel *channel,
	       int memory_fd)
{
	int fd[1 + CHANNEL_RINGS_MAX], error;

	fill_descriptors(channel, memory_fd, fd);
	error = reply_channel_opened(connection, id, &channel->shared.geometry, fd);
	close(memory_fd);
	if (error) {
		reply_error(connection, id, error, send_text(error));
		client_channel_close(channel);
		return;
	}
	client_channel_start(channel);
}

static int
channel_make(struct connection *connection, const Zcache__V1__ChannelOpen *open,
	     struct client_channel **channel, int *memory_fd)
{
	struct channel_geometry geometry;
	int error = client_channel_plan(connection, open->slot_size, open->slots, open->entries,
					&geometry);

	if (!error)
		error = peer_watch(connection);
	if (!error)
		error = client_channel_create(connection, &geometry, open->notify, channel,
					      memory_fd);
	return error;
}

bool
share_request_channel(struct connection *connection, const Zcache__V1__Request *request)
{
	struct client_channel *channel;
	int memory_fd, error;

	if (!connection_flush(connection))
		return connection->ended;
	error = channel_make(connection, request->channel_open, &channel, &memory_fd);
	if (error)
		reply_error(connection, request->id, error, channel_text(error));
	else
		answer_channel(connection, request->id, channel, memory_fd);
	return true;
}
