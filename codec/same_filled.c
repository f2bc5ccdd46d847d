/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages that are one 8-byte word repeated (mostly zeros): they are stored in the index entry
 * itself. Called for every put before compression, and by readers to rebuild such a page. Pure
 * functions; pointers need no alignment.
 */
#include <string.h>

#include "codec.h"

/*
 * The last word differs from the first one in most pages that are not same-filled, and costs one
 * cache line. After that a page is same-filled when it equals itself moved by one word, which the
 * C library compares with the widest vectors the processor has.
 */
bool
same_filled(const void *page, uint32_t length, uint64_t *word)
{
	const char *bytes = page;
	size_t rest = length - sizeof(*word);

	if (length < sizeof(*word) || length % sizeof(*word) != 0)
		return false;
	if (memcmp(bytes, bytes + rest, sizeof(*word)) != 0)
		return false;
	if (memcmp(bytes, bytes + sizeof(*word), rest) != 0)
		return false;
	memcpy(word, bytes, sizeof(*word));
	return true;
}

/* Doubles what is there already: a handful of wide copies instead of one store a word. */
void
same_fill(void *page, uint32_t length, uint64_t word)
{
	char *bytes = page;
	size_t done = length < sizeof(word) ? length : sizeof(word);

	memcpy(bytes, &word, done);
	while (done < length) {
		size_t more = done < length - done ? done : length - done;

		memcpy(bytes + done, bytes, more);
		done += more;
	}
}
