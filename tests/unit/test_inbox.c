/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of daemon/inbox.c: order, and that no message is slept over, with several threads that post.
 * Under ThreadSanitizer it also shows that a message's content arrives with it.
 */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "inbox.h"

#define POSTERS	 3u
#define MESSAGES 20000u

struct letter {
	struct message message; /* first */
	unsigned poster;
	unsigned number;
};

static struct inbox inbox;
static unsigned next_number[POSTERS];
static unsigned received;

/* No worker here: the inbox hands on what it is given. */
static void
deliver(struct worker *worker, struct message *message)
{
	struct letter *letter = (struct letter *)message;

	assert_null(worker);
	assert_int_equal(letter->number, next_number[letter->poster]);
	next_number[letter->poster]++;
	received++;
}

static void
deliver_all(void)
{
	struct message *message = inbox_take(&inbox);

	while (message) {
		struct message *next = message->next;

		message->deliver(NULL, message);
		message = next;
	}
}

static void
test_first_in_first_out(void **state)
{
	struct letter letters[5];

	(void)state;
	next_number[0] = received = 0;
	assert_int_equal(inbox_init(&inbox), 0);
	assert_null(inbox_take(&inbox));
	for (unsigned i = 0; i < 5; i++) {
		letters[i] = (struct letter){.poster = 0, .number = i};
		inbox_post(&inbox, &letters[i].message, deliver);
	}
	assert_false(inbox_may_sleep(&inbox));
	deliver_all();
	assert_int_equal(received, 5);
	assert_true(inbox_may_sleep(&inbox));
	assert_false(inbox_is_busy(&inbox));
	inbox_awake(&inbox);
	assert_true(inbox_is_busy(&inbox));
	inbox_destroy(&inbox);
	inbox_destroy(&inbox);
}

static void
test_only_a_sleeper_is_woken(void **state)
{
	struct letter letter = {.number = 0};
	uint64_t count;

	(void)state;
	assert_int_equal(inbox_init(&inbox), 0);
	inbox_post(&inbox, &letter.message, deliver);
	assert_int_equal(read(inbox.wake_fd, &count, sizeof(count)), -1);
	inbox_take(&inbox);
	assert_true(inbox_may_sleep(&inbox));
	inbox_post(&inbox, &letter.message, deliver);
	assert_int_equal(read(inbox.wake_fd, &count, sizeof(count)), sizeof(count));
	inbox_destroy(&inbox);
}

static void *
post_many(void *arg)
{
	struct letter *letters = arg;

	for (unsigned i = 0; i < MESSAGES; i++)
		inbox_post(&inbox, &letters[i].message, deliver);
	return NULL;
}

/* Sleeps as a worker does, but not for ever: a message slept over is a failure and no hang. */
static void
sleep_until_woken(void)
{
	struct pollfd wake = {.fd = inbox.wake_fd, .events = POLLIN};
	uint64_t count;

	if (!inbox_may_sleep(&inbox))
		return;
	assert_int_equal(poll(&wake, 1, 30000), 1);
	assert_int_equal(read(inbox.wake_fd, &count, sizeof(count)), sizeof(count));
	inbox_awake(&inbox);
}

static void
test_many_post_at_once(void **state)
{
	struct letter *letters = calloc(POSTERS * MESSAGES, sizeof(*letters));
	pthread_t poster[POSTERS];

	(void)state;
	received = 0;
	assert_int_equal(inbox_init(&inbox), 0);
	for (unsigned i = 0; i < POSTERS * MESSAGES; i++)
		letters[i] = (struct letter){.poster = i / MESSAGES, .number = i % MESSAGES};
	for (unsigned i = 0; i < POSTERS; i++) {
		next_number[i] = 0;
		assert_int_equal(
			pthread_create(&poster[i], NULL, post_many, &letters[i * MESSAGES]), 0);
	}
	while (received < POSTERS * MESSAGES) {
		deliver_all();
		if (received < POSTERS * MESSAGES)
			sleep_until_woken();
	}
	for (unsigned i = 0; i < POSTERS; i++)
		pthread_join(poster[i], NULL);
	assert_null(inbox_take(&inbox));
	inbox_destroy(&inbox);
	free(letters);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_in_first_out),
		cmocka_unit_test(test_only_a_sleeper_is_woken),
		cmocka_unit_test(test_many_post_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
