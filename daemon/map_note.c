/* SPDX-License-Identifier: BSD-2-Clause */
/* Who was given a pool's memory; map_note.h has the contract. */
#include "map_note.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "atomic.h"

void
map_notes_init(struct map_notes *notes)
{
	*notes = (struct map_notes){0};
	pthread_mutex_init(&notes->mutex, NULL);
}

void
map_notes_destroy(struct map_notes *notes)
{
	pthread_mutex_destroy(&notes->mutex);
	free(notes->note);
}

/* Memory for the notes, allocated by the first; without the mutex, as allocation may take its time. */
static int
make_room(struct map_notes *notes)
{
	struct map_note *note = calloc(MAP_NOTES, sizeof(*note));

	if (!note)
		return -ENOMEM;
	pthread_mutex_lock(&notes->mutex);
	if (!notes->note) {
		notes->note = note;
		note = NULL;
	}
	pthread_mutex_unlock(&notes->mutex);
	free(note);
	return 0;
}

static unsigned
kept(const struct map_notes *notes)
{
	uint32_t made = load_relaxed(&notes->made);

	return made < MAP_NOTES ? made : MAP_NOTES;
}

/* The mutex is held. */
static void
note_write(struct map_notes *notes, const struct map_note *new)
{
	for (unsigned i = 0; i < kept(notes); i++)
		if (memcmp(&notes->note[i], new, sizeof(*new)) == 0)
			return;
	notes->note[notes->made % MAP_NOTES] = *new;
	/* Relaxed: a reader that acts on it takes the mutex. */
	store_relaxed(&notes->made, notes->made + 1);
}

int
map_notes_add(struct map_notes *notes, pid_t pid, uid_t uid, const char *name)
{
	struct map_note note;

	/* Compared as bytes. */
	memset(&note, 0, sizeof(note));
	note.pid = pid;
	note.uid = uid;
	strncpy(note.name, name, sizeof(note.name) - 1);
	if (load_relaxed(&notes->made) == 0 && make_room(notes) < 0)
		return -ENOMEM;
	pthread_mutex_lock(&notes->mutex);
	note_write(notes, &note);
	pthread_mutex_unlock(&notes->mutex);
	return 0;
}

unsigned
map_notes_list(struct map_notes *notes, struct map_note *list)
{
	unsigned count, first;

	pthread_mutex_lock(&notes->mutex);
	count = kept(notes);
	first = notes->made - count;
	for (unsigned i = 0; i < count; i++)
		list[i] = notes->note[(first + i) % MAP_NOTES];
	pthread_mutex_unlock(&notes->mutex);
	return count;
}
