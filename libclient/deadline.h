/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Deadlines: points of CLOCK_MONOTONIC in nanoseconds, so that neither a changed wall clock nor an
 * interrupted wait moves them. Used by everything in the library that can wait. No state.
 */
#ifndef ZCLIENT_DEADLINE_H
#define ZCLIENT_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define DEADLINE_NEVER UINT64_MAX
#define DEADLINE_NOW   0u
#define NS_PER_MS      1000000u
#define NS_PER_SECOND  1000000000u

static inline uint64_t
deadline_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

/* 0 means no deadline. */
static inline uint64_t
deadline_in(unsigned milliseconds)
{
	return milliseconds ? deadline_now() + (uint64_t)milliseconds * NS_PER_MS : DEADLINE_NEVER;
}

static inline bool
deadline_passed(uint64_t deadline)
{
	return deadline != DEADLINE_NEVER && deadline_now() >= deadline;
}

static inline struct timespec
deadline_timespec(uint64_t nanoseconds)
{
	return (struct timespec){
		.tv_sec = (time_t)(nanoseconds / NS_PER_SECOND),
		.tv_nsec = (long)(nanoseconds % NS_PER_SECOND),
	};
}

#endif
