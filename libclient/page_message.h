/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests for pages as messages of the socket, and their results. Used by client_page.c and queue_socket.c.
 * No state, no locks.
 */
#ifndef ZCLIENT_PAGE_MESSAGE_H
#define ZCLIENT_PAGE_MESSAGE_H

#include <stdint.h>

#include <zclient.h>

#include "zcache.pb-c.h"

/* A message and its parts. Points into itself: not to be copied. */
struct page_message {
	Zcache__V1__Request request;
	Zcache__V1__Key key;
	union {
		Zcache__V1__Put put;
		Zcache__V1__Get get;
		Zcache__V1__Delete del;
		Zcache__V1__Exists exists;
	} op;
};

/*
 * Makes the message of a request that page_check() found good; the value is pointed at. Returns where the
 * pool's handle goes.
 */
uint32_t *page_message_make(struct page_message *message, const struct zc_request *request);

/* What a good response to it has. */
Zcache__V1__Response__ResultCase page_message_expect(uint32_t opcode);

/* The request's result in a good response, as page_result() wants it: a fetched value is copied to its buffer. */
int64_t page_message_take(const Zcache__V1__Response *response, const struct zc_request *request);

/* What is wrong with a request in itself: 0, -EINVAL or -EMSGSIZE, with the words for it in *text. */
int page_check(const struct zc_request *request, const char **text);

/* The service's status, or what was taken, as the result of the public functions. */
int64_t page_result(uint32_t opcode, int64_t status);

#endif
