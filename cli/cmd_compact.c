/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * compact: estimate, start, follow to the end, result. The compaction is the service's: this
 * process only starts it and looks, ten times a second.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "format.h"
#include "progress.h"
#include "report.h"
#include "service.h"
#include "table.h"

#define OS_PAGE_SIZE 4096u
#define POLL_MS	     100

/* What became of the request. */
enum outcome {
	OUTCOME_ESTIMATED, /* --estimate: nothing more was asked for */
	OUTCOME_NOTHING,   /* it ran and found nothing */
	OUTCOME_COMPACTED,
	OUTCOME_FOLLOWED, /* one was running already; it has ended */
};

static const char *const outcome_names[] = {
	[OUTCOME_ESTIMATED] = "estimated",
	[OUTCOME_NOTHING] = "nothing to do",
	[OUTCOME_COMPACTED] = "compacted",
	[OUTCOME_FOLLOWED] = "followed",
};

static bool
wants_json(const struct context *context)
{
	return context->options.given & OPTION_JSON;
}

static int
fetch_status(const struct context *context, struct zc_compaction *state)
{
	memset(state, 0, sizeof(*state));
	state->struct_size = sizeof(*state);
	return zc_compact_status(context->pool, state);
}

/* As zc_compact_start; -EALREADY comes with the state of the one that runs. */
static int
start(const struct context *context, unsigned flags, struct zc_compaction *state)
{
	int rc;

	memset(state, 0, sizeof(*state));
	state->struct_size = sizeof(*state);
	rc = zc_compact_start(context->pool, flags, state);
	if (rc == -EALREADY) {
		int error = fetch_status(context, state);

		rc = error < 0 ? error : -EALREADY;
	}
	return rc;
}

static void
print_estimate(const struct context *context, const struct zc_compaction *state)
{
	if (wants_json(context))
		return;
	printf("pool '%s': a compaction can free %" PRIu64 " OS pages or more, %s, in %" PRIu64
	       " zspages; it moves %" PRIu64 " objects or more\n",
	       context->pool_name, state->estimate_pages,
	       both_bytes(state->estimate_pages * OS_PAGE_SIZE).s, state->estimate_zspages,
	       state->moves_lower_bound);
	fflush(stdout); /* before the progress bar */
}

/* ---- result ---- */

static int
print_result_json(const struct context *context, enum outcome outcome,
		  const struct zc_compaction *state)
{
	bool ran = outcome != OUTCOME_ESTIMATED; /* else these are the numbers of an earlier one */
	json_t *object =
		json_pack("{s:s, s:s, s:o, s:o, s:o}", "pool", context->pool_name, "outcome",
			  outcome_names[outcome], "estimate_pages", json_u64(state->estimate_pages),
			  "estimate_zspages", json_u64(state->estimate_zspages),
			  "moves_lower_bound", json_u64(state->moves_lower_bound));
	json_t *result = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "objects_moved",
				   json_u64(ran ? state->objects_moved : 0), "objects_packed",
				   json_u64(ran ? state->objects_packed : 0), "objects_busy",
				   json_u64(ran ? state->objects_busy : 0), "zspages_freed",
				   json_u64(ran ? state->zspages_freed : 0), "pages_freed",
				   json_u64(ran ? state->pages_freed : 0), "resident_before_bytes",
				   json_u64(ran ? state->resident_before : state->resident_now),
				   "resident_after_bytes", json_u64(state->resident_now));

	json_object_update_new(object, result);
	return print_json(context, object);
}

static void
add_row(struct table *table, const char *label, const char *value)
{
	table_cell(table, "  %s", label);
	table_cell(table, "%s", value);
}

static void
add_count(struct table *table, const char *label, uint64_t count)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, count);
	add_row(table, label, text);
}

static int
print_result_text(const struct context *context, const struct zc_compaction *state)
{
	struct table table;

	if (table_begin(&table, "ll") < 0)
		return fail_memory(context);
	add_row(&table, "resident before", both_bytes(state->resident_before).s);
	add_row(&table, "resident after", both_bytes(state->resident_now).s);
	add_count(&table, "OS pages freed", state->pages_freed);
	add_count(&table, "zspages freed", state->zspages_freed);
	add_count(&table, "objects moved", state->objects_moved);
	add_count(&table, "objects packed", state->objects_packed);
	add_count(&table, "objects busy", state->objects_busy);
	printf("pool '%s': compacted\n", context->pool_name);
	return table_end(&table, stdout) < 0 ? fail_memory(context) : EXIT_OK;
}

static int
print_result(const struct context *context, enum outcome outcome, const struct zc_compaction *state)
{
	if (wants_json(context))
		return print_result_json(context, outcome, state);
	switch (outcome) {
	case OUTCOME_ESTIMATED:
		return EXIT_OK;
	case OUTCOME_NOTHING:
		printf("pool '%s': nothing to do\n", context->pool_name);
		return EXIT_OK;
	default:
		return print_result_text(context, state);
	}
}

/* ---- following ---- */

static void
sleep_milliseconds(long milliseconds)
{
	struct timespec left = {.tv_sec = milliseconds / 1000,
				.tv_nsec = milliseconds % 1000 * 1000000};

	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

static void
show_progress(struct progress *progress, const struct zc_compaction *state)
{
	char text[160];

	snprintf(text, sizeof(text),
		 "class %" PRIu32 " of %" PRIu32 ", %" PRIu64 " objects moved, %" PRIu64
		 " OS pages freed",
		 state->classes_done, state->classes_total, state->objects_moved,
		 state->pages_freed);
	/* Moves are the work; without a bound for them, classes are the best there is. */
	if (state->moves_lower_bound > 0)
		progress_show(progress, state->objects_moved, state->moves_lower_bound, text);
	else
		progress_show(progress, state->classes_done, state->classes_total, text);
}

/*
 * Looks at the compaction in *state until it has ended; *state is then its result. A status of a
 * later compaction means that it has ended as well: its last numbers seen stay. An earlier
 * generation means that the service was restarted, and the compaction with it.
 */
static int
follow(const struct context *context, struct zc_compaction *state)
{
	struct zc_compaction next = *state;
	struct progress progress;
	int rc = EXIT_OK;

	progress_begin(&progress);
	while (state->running) {
		show_progress(&progress, state);
		sleep_milliseconds(POLL_MS);
		rc = fetch_status(context, &next);
		if (rc < 0 || next.generation != state->generation)
			break;
		*state = next;
	}
	progress_end(&progress);
	if (rc < 0)
		return fail_call(context, CALL_ANY, rc);
	if (state->running && next.generation < state->generation)
		return fail_with(
			context, EXIT_OTHER,
			"the service was restarted before the compaction ended: start it again");
	return EXIT_OK;
}

static bool
found_nothing(const struct zc_compaction *state)
{
	return state->objects_moved + state->objects_packed + state->pages_freed == 0;
}

static int
follow_and_print(const struct context *context, enum outcome outcome, struct zc_compaction *state)
{
	int rc = follow(context, state);

	if (rc != EXIT_OK)
		return rc;
	if (outcome == OUTCOME_COMPACTED && found_nothing(state))
		outcome = OUTCOME_NOTHING;
	return print_result(context, outcome, state);
}

static int
follow_running(const struct context *context, struct zc_compaction *state)
{
	fprintf(stderr, "zcachectl: pool '%s': a compaction is running already; following it\n",
		context->pool_name);
	print_estimate(context, state);
	return follow_and_print(context, OUTCOME_FOLLOWED, state);
}

static int
estimate_only(const struct context *context, const struct zc_compaction *state)
{
	print_estimate(context, state);
	return print_result(context, OUTCOME_ESTIMATED, state);
}

int
run_compact(struct context *context)
{
	struct zc_compaction state;
	int rc = pool_open_wanted(context, 0);

	if (rc != EXIT_OK)
		return rc;
	rc = start(context, ZC_ESTIMATE, &state);
	if (rc < 0 && rc != -EALREADY)
		return fail_call(context, CALL_COMPACT, rc);
	if (context->options.given & OPTION_ESTIMATE)
		return estimate_only(context, &state);
	if (rc == -EALREADY || state.running)
		return follow_running(context, &state);
	print_estimate(context, &state);
	/* An estimate of nothing is no reason to stop: it is the least that will be freed. */
	rc = start(context, 0, &state);
	if (rc == -EALREADY)
		return follow_running(context, &state);
	if (rc < 0)
		return fail_call(context, CALL_COMPACT, rc);
	return follow_and_print(context, OUTCOME_COMPACTED, &state);
}
