/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests for pages as messages, see page_message.h. */
#include "page_message.h"

#include <errno.h>
#include <string.h>

#include "client.h"

int
page_check(const struct zc_request *request, const char **text)
{
	if (request->opcode < ZC_OP_PUT || request->opcode > ZC_OP_EXISTS) {
		*text = "unknown operation";
		return -EINVAL;
	}
	if (request->flags & ~(request->opcode == ZC_OP_PUT ? (uint32_t)ZC_KEEP_OLD : 0u)) {
		*text = "unknown flag";
		return -EINVAL;
	}
	if (request->opcode == ZC_OP_GET && !request->buffer && request->length) {
		*text = "no buffer";
		return -EINVAL;
	}
	if (request->opcode != ZC_OP_PUT)
		return 0;
	if (!request->buffer || request->length == 0) {
		*text = "no value";
		return -EINVAL;
	}
	if (request->length > request->pool->info.page_size) {
		*text = "longer than a page of the pool";
		return -EMSGSIZE;
	}
	return 0;
}

static uint32_t *
make_put(struct page_message *message, const struct zc_request *request)
{
	zcache__v1__put__init(&message->op.put);
	message->op.put.key = &message->key;
	message->op.put.value.data = request->buffer;
	message->op.put.value.len = request->length;
	message->op.put.keep_old = request->flags & ZC_KEEP_OLD;
	message->request.op_case = ZCACHE__V1__REQUEST__OP_PUT;
	message->request.put = &message->op.put;
	return &message->op.put.pool;
}

static uint32_t *
make_get(struct page_message *message)
{
	zcache__v1__get__init(&message->op.get);
	message->op.get.key = &message->key;
	message->request.op_case = ZCACHE__V1__REQUEST__OP_GET;
	message->request.get = &message->op.get;
	return &message->op.get.pool;
}

static uint32_t *
make_del(struct page_message *message)
{
	zcache__v1__delete__init(&message->op.del);
	message->op.del.key = &message->key;
	message->request.op_case = ZCACHE__V1__REQUEST__OP_DELETE;
	message->request.delete_ = &message->op.del;
	return &message->op.del.pool;
}

static uint32_t *
make_exists(struct page_message *message)
{
	zcache__v1__exists__init(&message->op.exists);
	message->op.exists.key = &message->key;
	message->request.op_case = ZCACHE__V1__REQUEST__OP_EXISTS;
	message->request.exists = &message->op.exists;
	return &message->op.exists.pool;
}

uint32_t *
page_message_make(struct page_message *message, const struct zc_request *request)
{
	zcache__v1__request__init(&message->request);
	zcache__v1__key__init(&message->key);
	message->key.object = request->key.object;
	message->key.index = request->key.index;
	switch ((enum zc_opcode)request->opcode) {
	case ZC_OP_PUT:
		return make_put(message, request);
	case ZC_OP_GET:
		return make_get(message);
	case ZC_OP_DEL:
		return make_del(message);
	case ZC_OP_EXISTS:
		break;
	}
	return make_exists(message);
}

Zcache__V1__Response__ResultCase
page_message_expect(uint32_t opcode)
{
	return opcode == ZC_OP_GET ? ZCACHE__V1__RESPONSE__RESULT_VALUE
				   : ZCACHE__V1__RESPONSE__RESULT__NOT_SET;
}

int64_t
page_message_take(const Zcache__V1__Response *response, const struct zc_request *request)
{
	const ProtobufCBinaryData *value;

	if (request->opcode != ZC_OP_GET)
		return 0;
	value = &response->value->value;
	if (value->len == 0)
		return -EPROTO;
	if (value->len > request->length)
		return -EMSGSIZE;
	memcpy(request->buffer, value->data, value->len);
	return (int64_t)value->len;
}

int64_t
page_result(uint32_t opcode, int64_t status)
{
	if (opcode != ZC_OP_EXISTS)
		return status;
	return status == 0 ? 1 : status == -ENOENT ? 0 : status;
}
