/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ordered accesses to words that other threads or processes touch.
 *
 * The name carries the order, so that a diff shows it. The words themselves are plain
 * fixed-width integers (layout.h must mean the same in every build and language), which is why
 * these are the compiler's __atomic builtins and not <stdatomic.h>.
 *
 * The comment beside each release store names the acquire it pairs with; each relaxed access
 * says why no order is needed.
 */
#ifndef ZCACHED_SHM_ATOMIC_H
#define ZCACHED_SHM_ATOMIC_H

#include <assert.h>
#include <stdint.h>

#define load_relaxed(p)	       __atomic_load_n((p), __ATOMIC_RELAXED)
#define load_acquire(p)	       __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define store_relaxed(p, v)    __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define store_release(p, v)    __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define add_relaxed(p, v)      __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define sub_relaxed(p, v)      __atomic_fetch_sub((p), (v), __ATOMIC_RELAXED)
#define exchange_acquire(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQUIRE)
#define exchange_acq_rel(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)
#define cas_relaxed(p, expected, v) \
	__atomic_compare_exchange_n((p), (expected), (v), 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#define cas_acq_rel(p, expected, v) \
	__atomic_compare_exchange_n((p), (expected), (v), 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
#define fence_acquire() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define fence_release() __atomic_thread_fence(__ATOMIC_RELEASE)

/* Tells the processor that we wait for a word to change. */
static inline void
pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static_assert(__atomic_always_lock_free(8, 0), "shared words of 64 bits must be lock-free");

#endif
