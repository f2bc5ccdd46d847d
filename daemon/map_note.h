/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Notes of who was given a pool's memory, for the log: should one of them touch holes, an operator wants
 * names. A mapping outlives its connection, so notes do too; only the last MAP_NOTES are kept, one a process.
 *
 * Workers add, the keeper reads. The mutex is a leaf, held for a few copies.
 */
#ifndef ZCACHED_DAEMON_MAP_NOTE_H
#define ZCACHED_DAEMON_MAP_NOTE_H

#include <pthread.h>
#include <stdint.h>
#include <sys/types.h>

#define MAP_NOTES     256u
#define MAP_NOTE_NAME 65u

struct map_note {
	pid_t pid;
	uid_t uid;
	char name[MAP_NOTE_NAME];
};

struct map_notes {
	pthread_mutex_t mutex;
	struct map_note *note; /* MAP_NOTES of them; NULL: none was made */
	uint32_t made;	       /* atomic: notes ever */
};

void map_notes_init(struct map_notes *notes);
void map_notes_destroy(struct map_notes *notes);

/* 0, or -ENOMEM: then the memory is not to be given away. */
int map_notes_add(struct map_notes *notes, pid_t pid, uid_t uid, const char *name);

/* The notes, copied: how many; newest last. `list` has room for MAP_NOTES. */
unsigned map_notes_list(struct map_notes *notes, struct map_note *list);

#endif
