/* Aligned memory, and a run's: what is planned is one block, kept for the next run. */

static void *burn_memory_new(int64_t bytes) {
    if (bytes < 0 || (uint64_t)bytes > SIZE_MAX / 2)
        return NULL;
    size_t whole = ((size_t)bytes / BURN_ALIGNMENT + 1) * BURN_ALIGNMENT;
#ifdef _WIN32
    return _aligned_malloc(whole, BURN_ALIGNMENT);
#else
    return aligned_alloc(BURN_ALIGNMENT, whole);
#endif
}

static void burn_memory_free(void *memory) {
#ifdef _WIN32
    _aligned_free(memory);
#else
    free(memory);
#endif
}

/* Records a failure, the first one; NULL. */
static void *fail_run(burn_run *run, int64_t code, int64_t value) {
    if (!run->status) {
        run->status = code ? (int32_t)code : BURN_OUT_OF_MEMORY;
        run->value = value;
    }
    return NULL;
}

/* The memory, of at least so many bytes; the first `kept` stay what they are. NULL where there is none. */
static void *enlarge(burn_run *run, void **memory, int64_t *room, int64_t bytes, int64_t kept) {
    if (*memory && bytes <= *room)
        return *memory;
    void *larger = burn_memory_new(bytes);
    if (!larger)
        return fail_run(run, bytes < 0 ? BURN_NEGATIVE_SIZE : BURN_OUT_OF_MEMORY, bytes);
    if (kept)
        memcpy(larger, *memory, (size_t)kept);
    burn_memory_free(*memory);
    *room = bytes;
    return *memory = larger;
}

void *burn_rt_plan(burn_run *run, const int64_t *sizes, int64_t count, int64_t *offsets) {
    if (run->status)
        return NULL;
#ifdef BURN_ARENA
    (void)sizes; /* they are numbers */
    memcpy(offsets, planned, (size_t)count * sizeof *offsets);
    int64_t bytes = BURN_ARENA;
#else
    burn_plan_result plan = burn_plan(facts.versions->program.live_ranges, sizes, count, offsets);
    if (plan.status != BURN_OK)
        return fail_run(run, plan.status, plan.value);
    int64_t bytes = plan.value;
#endif
    return enlarge(run, &run->arena, &run->arena_bytes, bytes, 0);
}

void *burn_rt_scratch(burn_worker *worker, int64_t bytes) {
    return enlarge(worker->run, &worker->scratch, &worker->scratch_bytes, bytes, worker->scratch_bytes);
}

/* ---- blocks whose size is known only in the middle of a run ---------------------------------------------------------- */

void *burn_rt_alloc(burn_run *run, int64_t bytes) {
    int64_t whole = bytes < 0 || bytes > INT64_MAX / 2 ? -1 : bytes + (int64_t)sizeof(block);
    block *new = run->status ? NULL : burn_memory_new(whole);
    if (!new)
        return fail_run(run, bytes < 0 ? BURN_NEGATIVE_SIZE : BURN_OUT_OF_MEMORY, bytes);
    new->next = run->blocks;
    new->bytes = bytes;
    new->order = run->next_order++;
    run->blocks = new;
    return new + 1;
}

/* The link to a block, in a list in which it is. */
static block **link_to(block **link, const block *wanted) {
    while (*link != wanted)
        link = &(*link)->next;
    return link;
}

void burn_rt_free(burn_run *run, void *memory) {
    if (!memory)
        return;
    block *freed = (block *)memory - 1;
    *link_to(&run->blocks, freed) = freed->next;
    burn_memory_free(freed);
}

void *burn_rt_grow(burn_run *run, void *memory, int64_t bytes) {
    if (!memory || bytes < 0)
        return burn_rt_alloc(run, bytes);
    block *old = (block *)memory - 1;
    int64_t more = old->bytes + old->bytes / 2;
    if (bytes <= old->bytes)
        return run->status ? NULL : memory;
    void *larger = burn_rt_alloc(run, bytes > more ? bytes : more);
    if (!larger)
        return NULL;
    memcpy(larger, memory, (size_t)old->bytes);
    /* It takes the place of the old block, so that it lives as long. */
    block *new = (block *)larger - 1;
    run->blocks = new->next;
    *link_to(&run->blocks, old) = new;
    new->next = old->next;
    new->order = old->order;
    burn_memory_free(old);
    return larger;
}

int64_t burn_rt_mark(burn_run *run) { return run->status ? -1 : run->next_order++; }

void burn_rt_release(burn_run *run, int64_t mark) {
    while (run->blocks && run->blocks->order > mark)
        burn_rt_free(run, run->blocks + 1);
}
