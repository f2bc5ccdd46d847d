/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections; connection.h has the overview. Functions may end the connection (it is `ended` then,
 * buffers and descriptor are gone), only connection_turn frees it.
 */
#include "connection.h"

#include <assert.h>
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "atomic.h"
#include "descriptor.h"
#include "engine_private.h"
#include "frame.h"
#include "log.h"
#include "reply.h"
#include "worker.h"

/* ---- beginning and end ---- */

struct connection *
connection_create(struct worker *worker, int fd, uid_t uid, pid_t pid)
{
	struct connection *connection = calloc(1, sizeof(*connection));

	if (!connection)
		return NULL;
	connection->worker = worker;
	connection->fd = fd;
	connection->uid = uid;
	connection->pid = pid;
	STAILQ_INIT(&connection->answers);
	LIST_INIT(&connection->channels);
	return connection;
}

void
connection_end(struct connection *connection)
{
	struct worker *worker = connection->worker;
	struct request *request;

	if (connection->ended)
		return;
	connection->ended = true;
	event_del(&connection->read);
	event_del(&connection->write);
	event_del(&connection->timer);
	peer_unwatch(&connection->peer);
	client_channels_close(connection);
	close(connection->fd);
	buffer_give(&worker->buffers, &connection->input);
	buffer_give(&worker->buffers, &connection->output);
	worker->output_used = 0;
	while ((request = STAILQ_FIRST(&connection->answers))) {
		STAILQ_REMOVE_HEAD(&connection->answers, link);
		request_end(request);
	}
	/* Relaxed: a number for statistics and the limit. */
	sub_relaxed(&worker->engine->connections, 1);
}

static void
connection_free(struct connection *connection)
{
	if (connection->ready)
		TAILQ_REMOVE(&connection->worker->ready, connection, ready_link);
	LIST_REMOVE(connection, link);
	handle_table_destroy(&connection->handles);
	free(connection);
}

/* Ends it for lack of memory; what its client asked for last may or may not have been done. */
static void __attribute__((noinline)) connection_end_no_memory(struct connection *connection)
{
	log_limited(LOG_KIND_MEMORY, LOG_WARNING, "a connection was ended: no memory");
	connection_end(connection);
}

static void
log_ended(const struct connection *connection, enum log_kind kind, const char *text)
{
	log_limited(kind, LOG_WARNING, "connection of pid %d, uid %u%s%s ended: %s",
		    (int)connection->pid, (unsigned)connection->uid,
		    connection->name[0] ? ", " : "", connection->name, text);
}

static void
protocol_error(struct connection *connection, const char *text)
{
	worker_count_add(&connection->worker->count.protocol_errors);
	log_ended(connection, LOG_KIND_PROTOCOL, text);
}

void
connection_fault(struct connection *connection, const char *text)
{
	if (connection->ended)
		return;
	if (text) {
		protocol_error(connection, text);
		connection_end(connection);
	} else {
		connection_end_no_memory(connection);
	}
	connection_make_ready(connection);
}

void
connection_reject(struct connection *connection, uint64_t id, int32_t status, const char *text)
{
	protocol_error(connection, text);
	reply_error(connection, id, status, text);
	connection->closing = true;
}

static void __attribute__((noinline)) connection_end_stalled(struct connection *connection)
{
	worker_count_add(&connection->worker->count.stalled_clients);
	log_ended(connection, LOG_KIND_STALLED,
		  connection->stall == STALL_OUTPUT ? "its client does not read"
						    : "its client stopped in a request");
	connection_end(connection);
}

/* ---- output ---- */

/* Keeps what could not be sent, behind what is kept already. */
static void __attribute__((noinline))
output_keep(struct connection *connection, const char *bytes, uint32_t size)
{
	struct buffer_cache *buffers = &connection->worker->buffers;
	struct buffer *old = connection->output;
	uint32_t kept = old ? old->used - old->begin : 0;
	struct buffer *output = buffer_take(buffers, kept + size);

	if (!output) {
		connection_end_no_memory(connection);
		return;
	}
	if (old)
		memcpy(output->data, old->data + old->begin, kept);
	memcpy(output->data + kept, bytes, size);
	output->used = kept + size;
	buffer_give(buffers, &connection->output);
	connection->output = output;
	event_add(&connection->write, NULL);
}

/* Sends what the socket takes; ends the connection on errors. Returns the bytes sent. */
static uint32_t
output_send(struct connection *connection, const char *bytes, uint32_t size)
{
	ssize_t sent = send(connection->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);

	if (sent >= 0) {
		connection->progress++;
		return (uint32_t)sent;
	}
	if (errno != EAGAIN && errno != EINTR)
		connection_end(connection);
	return 0;
}

/* Sends what is kept. True when nothing is left and the connection lives. */
static bool
output_send_kept(struct connection *connection)
{
	struct buffer *output = connection->output;

	if (!output)
		return true;
	output->begin +=
		output_send(connection, output->data + output->begin, output->used - output->begin);
	if (connection->ended)
		return false;
	if (output->begin < output->used) {
		event_add(&connection->write, NULL);
		return false;
	}
	buffer_give(&connection->worker->buffers, &connection->output);
	return true;
}

static void
output_send_or_keep(struct connection *connection, const char *bytes, uint32_t size)
{
	uint32_t sent = 0;

	if (!connection->output)
		sent = output_send(connection, bytes, size);
	if (!connection->ended && sent < size)
		output_keep(connection, bytes + sent, size - sent);
}

/* Sends the responses in the worker's scratch. */
static void
output_flush(struct connection *connection)
{
	struct worker *worker = connection->worker;
	uint32_t size = worker->output_used;

	worker->output_used = 0;
	if (size && !connection->ended)
		output_send_or_keep(connection, worker->output, size);
}

bool
connection_flush(struct connection *connection)
{
	output_flush(connection);
	return !connection->output && !connection->ended;
}

bool
connection_has_room(struct connection *connection)
{
	if (connection->worker->output_used > WORKER_OUTPUT_FLUSH)
		output_flush(connection);
	return !connection->output && !connection->ended;
}

int
connection_send_descriptors(struct connection *connection, const char *bytes, uint32_t size,
			    const int *fd, unsigned count)
{
	int sent = descriptor_send(connection->fd, &connection->descriptors_unread, bytes, size, fd,
				   count);

	if (sent < 0)
		return sent;
	connection->progress++;
	if ((uint32_t)sent < size)
		output_keep(connection, bytes + sent, size - (uint32_t)sent);
	return 0;
}

/*
 * Between turns. A client with unread output looks at its rings when it has read that, so nothing is lost if
 * this one is; and it must not be taken for one that does not read.
 */
void
connection_send_wakeup(struct connection *connection)
{
	char frame[REPLY_WAKEUP_SIZE];
	uint32_t size, sent;

	if (connection->ended || connection->closing || connection->output)
		return;
	size = reply_wakeup(frame);
	sent = output_send(connection, frame, size);
	if (!connection->ended && sent > 0 && sent < size)
		output_keep(connection, frame + sent, size - sent);
	if (connection->ended || connection->output)
		connection_make_ready(connection);
}

void
connection_put_frame(struct connection *connection, const char *bytes, uint32_t size)
{
	struct worker *worker = connection->worker;

	if (size <= WORKER_OUTPUT - worker->output_used) {
		memcpy(worker->output + worker->output_used, bytes, size);
		worker->output_used += size;
		return;
	}
	output_flush(connection);
	if (!connection->ended)
		output_send_or_keep(connection, bytes, size);
}

static void
pack_answers(struct connection *connection)
{
	struct request *request;

	while ((request = STAILQ_FIRST(&connection->answers)) && connection_has_room(connection)) {
		STAILQ_REMOVE_HEAD(&connection->answers, link);
		if (!connection->closing)
			request->kind->answer(request);
		request_end(request);
	}
}

/* ---- input ---- */

static bool
may_parse(struct connection *connection)
{
	return !connection->closing && !connection->barrier && !connection->waiting &&
	       !connection->worker->draining && connection_has_room(connection);
}

/* Takes whole requests, as long as they can be taken. Returns the bytes used up. */
static uint32_t
input_parse(struct connection *connection, const char *bytes, uint32_t size)
{
	uint32_t used = 0, length;

	while (used < size && may_parse(connection)) {
		int whole = frame_parse(bytes + used, size - used, ZC_FRAME_MAX, &length);

		if (whole < 0)
			connection_reject(connection, 0, -EMSGSIZE,
					  "a frame of length 0, or longer than the service takes");
		if (whole <= 0)
			break;
		if (!request_dispatch(connection, bytes + used + ZC_FRAME_HEADER, length)) {
			connection->waiting = true;
			break;
		}
		used += ZC_FRAME_HEADER + length;
		connection->progress++;
	}
	return used;
}

/* Room for what there is, and for the rest of the frame it begins with. */
static uint32_t
input_need(const char *bytes, uint32_t size)
{
	uint32_t length;

	if (frame_parse(bytes, size, ZC_FRAME_MAX, &length) == 0 && length)
		return ZC_FRAME_HEADER + length;
	return size < ZC_FRAME_HEADER ? ZC_FRAME_HEADER : size;
}

/* Keeps what was not parsed; `buffer` is the one it lies in, or NULL for the worker's scratch. */
static void
input_keep(struct connection *connection, struct buffer *buffer, const char *bytes, uint32_t size)
{
	struct buffer_cache *buffers = &connection->worker->buffers;
	struct buffer *keep = buffer;

	if (size == 0 || connection->ended || connection->closing) {
		buffer_give(buffers, &buffer);
		return;
	}
	if (!buffer || buffer->size < input_need(bytes, size))
		keep = buffer_take(buffers, input_need(bytes, size));
	if (!keep) {
		buffer_give(buffers, &buffer);
		connection_end_no_memory(connection);
		return;
	}
	memmove(keep->data, bytes, size);
	keep->used = size;
	connection->input = keep;
	if (keep != buffer)
		buffer_give(buffers, &buffer);
}

/* Parses `size` bytes that lie in `buffer`, or in the worker's scratch (NULL). */
static void
input_consume(struct connection *connection, struct buffer *buffer, uint32_t size)
{
	const char *bytes = buffer ? buffer->data : connection->worker->input;
	uint32_t used;

	connection->input = NULL;
	used = input_parse(connection, bytes, size);
	input_keep(connection, buffer, bytes + used, size - used);
}

static void
input_end(struct connection *connection)
{
	connection->end_of_input = true;
	if (connection->input)
		protocol_error(connection, "it was closed in the middle of a request");
}

static void
input_receive(struct connection *connection)
{
	struct buffer *input = connection->input;
	uint32_t have = input ? input->used : 0;
	struct iovec room = {.iov_base = (input ? input->data : connection->worker->input) + have,
			     .iov_len = (input ? input->size : WORKER_INPUT) - have};
	/* No room for control messages: the kernel drops descriptors and says MSG_CTRUNC. */
	struct msghdr message = {.msg_iov = &room, .msg_iovlen = 1};
	ssize_t received;

	assert(room.iov_len > 0);
	received = recvmsg(connection->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (received < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (received < 0) {
		connection_end(connection);
	} else if (message.msg_flags & MSG_CTRUNC) {
		protocol_error(connection, "it sent file descriptors");
		connection_end(connection);
	} else if (received == 0) {
		input_end(connection);
	} else {
		input_consume(connection, input, have + (uint32_t)received);
	}
}

static bool
wants_input(const struct connection *connection)
{
	return !connection->ended && !connection->closing && !connection->end_of_input &&
	       !connection->barrier && !connection->waiting && !connection->output &&
	       !connection->worker->draining;
}

/* ---- turns ---- */

static void
connection_work(struct connection *connection, bool readable)
{
	if (!output_send_kept(connection))
		return;
	pack_answers(connection);
	/* Half of the room: not a turn for each request. */
	if (connection->in_flight <= CONNECTION_IN_FLIGHT_MAX / 2)
		connection->waiting = false;
	if (connection->input && !connection->reading)
		input_consume(connection, connection->input, connection->input->used);
	if (readable && wants_input(connection))
		input_receive(connection);
}

static void
set_reading(struct connection *connection, bool reading)
{
	if (reading == connection->reading)
		return;
	connection->reading = reading;
	if (reading)
		event_add(&connection->read, NULL);
	else
		event_del(&connection->read);
}

/* Sets the clock for a client that keeps us waiting, or stops it. */
static void
watch_stall(struct connection *connection)
{
	enum connection_stall stall = STALL_NONE;

	if (connection->output)
		stall = STALL_OUTPUT;
	else if (connection->input && connection->reading)
		stall = STALL_INPUT;
	if (stall == connection->stall &&
	    (stall == STALL_NONE || connection->stall_progress == connection->progress))
		return;
	connection->stall = stall;
	connection->stall_progress = connection->progress;
	if (stall == STALL_NONE)
		event_del(&connection->timer);
	else
		event_add(&connection->timer, connection->worker->client_timeout);
}

static bool
is_over(const struct connection *connection)
{
	if (connection->output)
		return false;
	return connection->closing || (connection->end_of_input && connection->in_flight == 0);
}

/* The end of a turn: sends, and decides what to wait for. */
static void
connection_settle(struct connection *connection)
{
	output_flush(connection);
	if (!connection->ended && is_over(connection))
		connection_end(connection);
	if (connection->ended)
		return;
	set_reading(connection, wants_input(connection));
	watch_stall(connection);
}

void
connection_turn(struct connection *connection, bool readable)
{
	assert(connection->worker->output_used == 0);
	if (!connection->ended)
		connection_work(connection, readable);
	if (!connection->ended)
		connection_settle(connection);
	if (connection->ended && connection->in_flight == 0 && LIST_EMPTY(&connection->channels))
		connection_free(connection);
}

void
connection_shut(struct connection *connection)
{
	assert(connection->worker->output_used == 0);
	if (!connection->ended)
		connection_work(connection, false);
	output_flush(connection);
	connection_end(connection);
	assert(connection->in_flight == 0 && LIST_EMPTY(&connection->channels));
	connection_free(connection);
}

void
connection_make_ready(struct connection *connection)
{
	if (connection->ready)
		return;
	connection->ready = true;
	TAILQ_INSERT_TAIL(&connection->worker->ready, connection, ready_link);
}

/* ---- events ---- */

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct connection *connection = arg;

	(void)fd;
	(void)what;
	inbox_awake(&connection->worker->inbox);
	connection_turn(connection, true);
}

static void
on_writable(evutil_socket_t fd, short what, void *arg)
{
	struct connection *connection = arg;

	(void)fd;
	(void)what;
	inbox_awake(&connection->worker->inbox);
	connection_turn(connection, false);
}

/*
 * The client has kept us waiting for too long; unless it has read a little: the kernel calls a
 * socket writable only when most of its buffer is free.
 */
static void
on_timeout(evutil_socket_t fd, short what, void *arg)
{
	struct connection *connection = arg;
	uint64_t progress = connection->progress;

	(void)fd;
	(void)what;
	inbox_awake(&connection->worker->inbox);
	if (connection->stall == STALL_OUTPUT)
		output_send_kept(connection);
	if (!connection->ended && connection->progress == progress)
		connection_end_stalled(connection);
	connection->stall = STALL_NONE;
	connection_turn(connection, false);
}

void
connection_adopt(struct worker *worker, struct message *message)
{
	struct connection *connection = (struct connection *)message;

	event_assign(&connection->read, worker->base, connection->fd, EV_READ | EV_PERSIST,
		     on_readable, connection);
	event_assign(&connection->write, worker->base, connection->fd, EV_WRITE, on_writable,
		     connection);
	evtimer_assign(&connection->timer, worker->base, on_timeout, connection);
	LIST_INSERT_HEAD(&worker->connections, connection, link);
	connection_turn(connection, true);
}
