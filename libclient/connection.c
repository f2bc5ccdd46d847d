/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The socket and its buffers, see connection.h. Called by transport.c and queue_link.c, which do the
 * locking.
 *
 * A received value is copied three times: into the buffer, by the decoder into the arena, and to
 * the caller. The last two cost a thousandth of the way through the socket, and a decoder of our own
 * would have to be as careful as the library's.
 *
 * Descriptors come with the first byte of the frame that announces them, but the kernel may hand over
 * earlier frames in the same read. So they wait in a row, each announcing response takes as many as it
 * says from its front, and what is left when all bytes are decoded was announced by nobody and is closed.
 */
#include "connection.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "deadline.h"

/* What one reply may take decoded: many fields of few bytes become structs of hundreds. */
#define REPLY_ARENA_MAX (8u * ZC_REPLY_MAX)
#define CLIENT_NAME_MAX 64
/* Of a mapped pool: control, index, data. */
#define POOL_DESCRIPTORS 3

int
connection_init(struct connection *connection)
{
	*connection = (struct connection){.fd = -1, .in_size = ZC_FRAME_HEADER + ZC_FRAME_MAX};
	connection->out = malloc(ZC_FRAME_HEADER + ZC_FRAME_MAX);
	connection->in = malloc(connection->in_size);
	if (!connection->out || !connection->in ||
	    frame_arena_init(&connection->arena, ZC_ARENA_SIZE)) {
		connection_destroy(connection);
		return -ENOMEM;
	}
	return 0;
}

void
connection_destroy(struct connection *connection)
{
	connection_close(connection);
	free(connection->out);
	free(connection->in);
	frame_arena_destroy(&connection->arena);
}

void
connection_close(struct connection *connection)
{
	int fd = connection->fd;

	/* First forgotten, then closed: a child forked in between must not close the number again. */
	connection->fd = -1;
	if (fd >= 0)
		close(fd);
	descriptors_keep(&connection->descriptors, 0);
	connection->announced = 0;
}

void
connection_shutdown(struct connection *connection)
{
	if (connection->fd >= 0)
		shutdown(connection->fd, SHUT_RDWR);
}

/* Waits until the socket is ready. 0, -ETIMEDOUT, or what ppoll(2) says. */
static int
wait_ready(int fd, short events, uint64_t deadline)
{
	struct pollfd ready = {.fd = fd, .events = events};

	for (;;) {
		uint64_t now = deadline_now();
		struct timespec left = deadline_timespec(deadline > now ? deadline - now : 0);
		int count = ppoll(&ready, 1, deadline == DEADLINE_NEVER ? NULL : &left, NULL);

		if (count > 0)
			return 0;
		if (count == 0)
			return -ETIMEDOUT;
		if (errno != EINTR)
			return -errno;
	}
}

/* The ways in which a peer can be gone are one to our callers. */
static int
socket_error(int error)
{
	return error == EPIPE || error == ENOTCONN ? -ECONNRESET : -error;
}

/* ---- sending ---- */

bool
connection_unsent(const struct connection *connection)
{
	return connection->out_start < connection->out_end;
}

int
connection_flush(struct connection *connection, uint64_t deadline)
{
	while (connection_unsent(connection)) {
		ssize_t sent = send(connection->fd, connection->out + connection->out_start,
				    connection->out_end - connection->out_start, MSG_NOSIGNAL);
		int error = 0;

		if (sent >= 0)
			connection->out_start += (size_t)sent;
		else if (errno == EAGAIN)
			error = wait_ready(connection->fd, POLLOUT, deadline);
		else if (errno != EINTR)
			error = socket_error(errno);
		if (error)
			return error;
	}
	return 0;
}

int
connection_send(struct connection *connection, const Zcache__V1__Request *request,
		uint64_t deadline)
{
	/* First the rest of a request whose caller did not wait for it to go out. */
	int error = connection_flush(connection, deadline);
	int64_t length;

	if (error)
		return error;
	length = frame_pack(&request->base, connection->out, ZC_FRAME_HEADER + ZC_FRAME_MAX,
			    connection->max_frame);
	if (length < 0)
		return (int)length;
	connection->out_start = 0;
	connection->out_end = (size_t)length;
	error = connection_flush(connection, deadline);
	if (error && connection->out_start == 0)
		connection->out_end = 0;
	return error;
}

/* ---- receiving ---- */

/* Makes room behind in_start for a frame of `length` bytes; 0: for its header. */
static int
reserve_input(struct connection *connection, uint32_t length)
{
	size_t need = ZC_FRAME_HEADER + (size_t)length;
	uint8_t *larger;

	if (connection->in_size - connection->in_start >= need)
		return 0;
	memmove(connection->in, connection->in + connection->in_start,
		connection->in_end - connection->in_start);
	connection->in_end -= connection->in_start;
	connection->in_start = 0;
	if (connection->in_size >= need)
		return 0;
	larger = realloc(connection->in, need);
	if (!larger)
		return -ENOMEM;
	connection->in = larger;
	connection->in_size = need;
	return 0;
}

static int
fill_input(struct connection *connection, uint64_t deadline)
{
	/* Wait first: in a synchronous call the reply is hardly ever there yet. */
	int error = deadline == DEADLINE_NOW ? 0 : wait_ready(connection->fd, POLLIN, deadline);
	ssize_t received;

	if (error)
		return error;
	received = descriptors_receive(&connection->descriptors, connection->fd,
				       connection->in + connection->in_end,
				       connection->in_size - connection->in_end);
	if (received == 0)
		return -ECONNRESET;
	if (received > 0)
		connection->in_end += (size_t)received;
	else if (errno == EAGAIN)
		return deadline == DEADLINE_NOW ? -ETIMEDOUT : 0;
	else if (errno != EINTR)
		return socket_error(errno);
	return 0;
}

/* A long control reply gets a larger arena, once. 0, -ENOMEM, or -EPROTO when it has that already. */
static int
enlarge_arena(struct connection *connection)
{
	struct frame_arena large;

	if (connection->arena.size >= REPLY_ARENA_MAX)
		return -EPROTO;
	if (frame_arena_init(&large, REPLY_ARENA_MAX))
		return -ENOMEM;
	frame_arena_destroy(&connection->arena);
	connection->arena = large;
	connection->arena.allocator.allocator_data = &connection->arena;
	return 0;
}

static unsigned
descriptors_announced(const Zcache__V1__Response *response)
{
	uint32_t rings;

	if (response->result_case == ZCACHE__V1__RESPONSE__RESULT_POOL_MAPPED)
		return POOL_DESCRIPTORS;
	if (response->result_case != ZCACHE__V1__RESPONSE__RESULT_CHANNEL_OPENED)
		return 0;
	rings = response->channel_opened->rings;
	return rings < DESCRIPTORS_MAX ? 1 + rings : DESCRIPTORS_MAX;
}

static int
decode(struct connection *connection, uint32_t length, Zcache__V1__Response **response)
{
	const uint8_t *message = connection->in + connection->in_start + ZC_FRAME_HEADER;
	int error;

	do {
		frame_arena_reset(&connection->arena);
		*response =
			zcache__v1__response__unpack(&connection->arena.allocator, length, message);
		error = *response ? 0 : enlarge_arena(connection);
	} while (!*response && !error);
	connection->announced = error ? 0 : descriptors_announced(*response);
	connection->in_start += ZC_FRAME_HEADER + (size_t)length;
	if (connection->in_start == connection->in_end) {
		connection->in_start = connection->in_end = 0;
		descriptors_keep(&connection->descriptors, connection->announced);
	}
	return error;
}

int
connection_receive(struct connection *connection, Zcache__V1__Response **response,
		   uint64_t deadline)
{
	int error = 0;

	descriptors_drop(&connection->descriptors, connection->announced);
	connection->announced = 0;
	while (!error) {
		uint32_t length;
		int whole = frame_parse(connection->in + connection->in_start,
					connection->in_end - connection->in_start, ZC_REPLY_MAX,
					&length);

		if (whole < 0)
			return -EPROTO;
		if (whole)
			return decode(connection, length, response);
		error = reserve_input(connection, length);
		if (!error)
			error = fill_input(connection, deadline);
	}
	return error;
}

unsigned
connection_take_descriptors(struct connection *connection, int *fds, unsigned room)
{
	unsigned wanted = connection->announced < room ? connection->announced : room;
	unsigned taken = descriptors_take(&connection->descriptors, fds, wanted);

	connection->announced -= taken;
	return taken;
}

int
connection_check(const struct connection *connection)
{
	char byte;
	ssize_t there = recv(connection->fd, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT);

	if (there > 0 || (there < 0 && (errno == EAGAIN || errno == EINTR)))
		return 0;
	return -ECONNRESET;
}

/* ---- opening ---- */

/* The program's name for the service's log, in the ASCII that every decoder takes. */
static void
client_name(char name[CLIENT_NAME_MAX + 1])
{
	snprintf(name, CLIENT_NAME_MAX + 1, "%s", program_invocation_short_name);
	for (char *c = name; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
}

int
connection_welcome(struct connection *connection, const Zcache__V1__Response *response)
{
	if (response->id != CONNECTION_HELLO_ID || response->status > 0)
		return -EPROTO;
	if (response->status < 0)
		return response->status;
	if (response->result_case != ZCACHE__V1__RESPONSE__RESULT_HELLO)
		return -EPROTO;
	if (response->hello->version != ZC_PROTOCOL_VERSION)
		return -EPROTONOSUPPORT;
	if (response->hello->max_frame && response->hello->max_frame < ZC_FRAME_MAX)
		connection->max_frame = response->hello->max_frame;
	if (response->hello->max_in_flight)
		connection->window = response->hello->max_in_flight;
	return 0;
}

static int
say_hello(struct connection *connection)
{
	Zcache__V1__Request request = ZCACHE__V1__REQUEST__INIT;
	Zcache__V1__Hello hello = ZCACHE__V1__HELLO__INIT;
	char name[CLIENT_NAME_MAX + 1];

	client_name(name);
	hello.version = ZC_PROTOCOL_VERSION;
	hello.client = name;
	request.id = CONNECTION_HELLO_ID;
	request.op_case = ZCACHE__V1__REQUEST__OP_HELLO;
	request.hello = &hello;
	/* The first bytes of a connection: the socket has room for them. */
	return connection_send(connection, &request, DEADLINE_NOW);
}

static int
connect_socket(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error;

	if (fd < 0)
		return -errno;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	error = -errno;
	close(fd);
	return error;
}

int
connection_start(struct connection *connection, const char *path)
{
	int fd = connect_socket(path);
	int error;

	if (fd < 0)
		return fd;
	connection->fd = fd;
	connection->max_frame = ZC_FRAME_MAX;
	connection->window = 1;
	connection->out_start = connection->out_end = 0;
	connection->in_start = connection->in_end = 0;
	error = say_hello(connection);
	/* A service that hung up may have said why. */
	if (error && error != -ECONNRESET)
		connection_close(connection);
	return error == -ECONNRESET ? 0 : error;
}

int
connection_open(struct connection *connection, const char *path, uint64_t deadline)
{
	Zcache__V1__Response *response;
	int error = connection_start(connection, path);

	if (error)
		return error;
	error = connection_receive(connection, &response, deadline);
	if (!error)
		error = connection_welcome(connection, response);
	if (error)
		connection_close(connection);
	return error;
}
