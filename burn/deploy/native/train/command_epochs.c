/* The epochs of a training: steps on batches of rows, lines about them, and checkpoints. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train_command.h"

enum { BATCH = 32 };

volatile sig_atomic_t burn_interrupted;

static void interrupt(int number) {
    burn_interrupted = 1;
    signal(number, SIG_DFL); /* the second one ends the process */
}

typedef struct training {
    const burn_train_options *o;
    burn_trainer *trainer;
    burn_column *columns;
    int64_t rows, batch;
    int64_t batches; /* of an epoch */
    int drops_last;
    burn_tensor *inputs, *outputs;
    int64_t loss; /* the number of the output that is shown, or -1 */
} training;

/* The loader's position in JSON, as Python writes it. */
static void position_text(const training *t, int64_t epoch, int64_t batch, char text[256]) {
    snprintf(text, 256,
             "{\"epoch\": %lld, \"batch\": %lld, \"rows\": %lld, \"batch_size\": %lld, \"shuffle\": %d, \"seed\": %llu, "
             "\"drop_last\": %d, \"world\": 1}",
             (long long)epoch, (long long)batch, (long long)t->rows, (long long)t->batch, !t->o->keeps_order,
             (unsigned long long)t->o->seed, t->drops_last);
}

static void save(const training *t, int64_t epoch, int64_t batch) {
    char text[256];
    if (!t->o->save)
        return;
    position_text(t, epoch, batch, text);
    burn_trainer_set_position(t->trainer, &(burn_position){epoch + 1, batch, text, 1});
    if (burn_trainer_save(t->trainer, t->o->save) != BURN_DONE)
        burn_trainer_failed("");
}

static void no_position(const training *t, int64_t epoch, int64_t batch) {
    burn_exit(BURN_EXIT_FAILED, "%s is damaged: there is no batch %lld of epoch %lld, as epochs have %lld batches here",
              t->o->resume, (long long)batch, (long long)epoch, (long long)t->batches);
}

/* Where a resumed training goes on: an epoch, which counts from 0, and a batch. */
static void find_position(const training *t, int64_t *epoch, int64_t *batch) {
    char text[256];
    burn_position position = burn_trainer_position(t->trainer);
    if (!position.is_known)
        burn_exit(BURN_EXIT_FAILED, "%s is no checkpoint of a training: it holds tensors alone (--load takes them)", t->o->resume);
    if (position.epoch < 1)
        no_position(t, position.epoch - 1, position.batch);
    *epoch = position.epoch - 1;
    *batch = position.batch;
    if (!position.data) {
        if (*batch)
            burn_exit(BURN_EXIT_FAILED, "%s was made in the middle of an epoch, and has no position in data (--load takes its state)",
                      t->o->resume);
        return;
    }
    long long e = 0, b = 0;
    if (sscanf(position.data, "{\"epoch\": %lld, \"batch\": %lld,", &e, &b) == 2) {
        *epoch = e;
        *batch = b;
    }
    position_text(t, *epoch, *batch, text);
    if (strcmp(text, position.data) != 0)
        burn_exit(BURN_EXIT_FAILED, "%s is of other rows or options: its loader is %s, here it is %s (--load takes the state alone)",
                  t->o->resume, position.data, text);
    if (*epoch < 0 || *epoch > BURN_MOST_COUNT || *batch < 0 || *batch > t->batches)
        no_position(t, *epoch, *batch);
}

/* The number of an output with one float: the one called "loss", or the first. */
static int64_t loss_output(const burn_model_facts *facts) {
    int64_t first = -1;
    for (int64_t i = 0; i < facts->output_count; i++) {
        const burn_value *value = &facts->outputs[i];
        if (value->rank || (value->element != BURN_FLOAT32 && value->element != BURN_FLOAT64))
            continue;
        if (strcmp(value->name, "loss") == 0)
            return i;
        first = first < 0 ? i : first;
    }
    return first;
}

static double loss_of(const training *t) {
    const burn_tensor *output = &t->outputs[t->loss];
    return output->element == BURN_FLOAT32 ? (double)*(const float *)output->data : *(const double *)output->data;
}

/* One step on rows of an order. The loss; NaN if there is none. */
static double one_step(training *t, const burn_ranked *order, int64_t count) {
    const burn_model_facts *facts = burn_main_trainer->step.facts;
    for (int64_t i = 0; i < facts->input_count; i++) {
        const burn_column *c = &t->columns[i];
        burn_tensor *input = &t->inputs[i];
        if (!c->has_rows)
            continue;
        input->dims[0] = count;
        input->bytes = count * c->row_bytes;
        for (int64_t row = 0; row < count && c->row_bytes; row++)
            memcpy((unsigned char *)input->data + row * c->row_bytes, c->data + order[row].row * c->row_bytes,
                   (size_t)c->row_bytes);
    }
    for (int64_t i = 0; i < facts->output_count; i++)
        t->outputs[i].data = NULL;
    if (burn_trainer_step_tensors(t->trainer, t->inputs, t->outputs) != BURN_DONE)
        burn_trainer_failed("");
    double loss = t->loss < 0 ? (double)NAN : loss_of(t);
    for (int64_t i = 0; i < facts->output_count; i++)
        burn_model_free(&t->outputs[i]);
    return loss;
}

static void begin_inputs(training *t) {
    const burn_model_facts *facts = burn_main_trainer->step.facts;
    t->inputs = burn_room((size_t)facts->input_count, sizeof *t->inputs);
    t->outputs = burn_room((size_t)facts->output_count, sizeof *t->outputs);
    for (int64_t i = 0; i < facts->input_count; i++) {
        const burn_column *c = &t->columns[i];
        const int64_t bytes = c->has_rows ? (t->batch < t->rows ? t->batch : t->rows) * c->row_bytes : c->bytes;
        t->inputs[i] = (burn_tensor){c->data, bytes, facts->inputs[i].element, c->rank, {0}};
        memcpy(t->inputs[i].dims, c->dims, sizeof c->dims);
        if (c->has_rows && !(t->inputs[i].data = burn_memory_new(bytes)))
            burn_exit(BURN_EXIT_FAILED, "out of memory");
    }
    t->loss = loss_output(facts);
}

static void end_inputs(training *t) {
    for (int64_t i = 0; i < burn_main_trainer->step.facts->input_count; i++) {
        if (t->columns[i].has_rows)
            burn_memory_free(t->inputs[i].data);
        burn_memory_free(t->columns[i].data);
    }
    free(t->inputs);
    free(t->outputs);
    free(t->columns);
}

/* One epoch from a batch on. 0: it was interrupted. */
static int one_epoch(training *t, burn_ranked *order, int64_t epoch, int64_t batch) {
    const burn_train_options *o = t->o;
    const int64_t began = burn_clock_ns();
    double sum = 0;
    int64_t seen = 0;
    burn_order_rows(order, t->rows, o, epoch);
    for (; batch < t->batches && !burn_interrupted; batch++) {
        const int64_t first = batch * t->batch, count = t->rows - first < t->batch ? t->rows - first : t->batch;
        const double loss = one_step(t, order + first, count);
        const int64_t steps = burn_trainer_steps(t->trainer);
        if (t->loss >= 0 && !isfinite(loss))
            burn_exit(BURN_EXIT_FAILED, "the loss of step %lld (epoch %lld, batch %lld) is %s", (long long)steps,
                      (long long)epoch + 1, (long long)batch + 1, isnan(loss) ? "nan" : "infinite");
        sum += loss * (double)count;
        seen += count;
        if (o->every && steps % o->every == 0) {
            printf("step %lld", (long long)steps);
            printf(t->loss < 0 ? "\n" : "  loss %.4f\n", loss);
            fflush(stdout);
        }
    }
    if (batch < t->batches) {
        save(t, epoch, batch);
        return 0;
    }
    printf("epoch %lld/%lld", (long long)epoch + 1, (long long)(epoch + 1 > o->epochs ? epoch + 1 : o->epochs));
    if (t->loss >= 0 && seen)
        printf("  loss %.4f", sum / (double)seen);
    printf("  %lld steps  %.1f s\n", (long long)burn_trainer_steps(t->trainer), (double)(burn_clock_ns() - began) / 1e9);
    fflush(stdout);
    save(t, epoch + 1, 0);
    return 1;
}

void burn_train(burn_trainer *trainer, const burn_train_options *o) {
    training t = {.o = o, .trainer = trainer, .drops_last = o->drops_last};
    const int64_t fixed = burn_main_trainer->batch;
    t.columns = burn_read_columns(o, &t.rows);
    t.batch = o->batch ? o->batch : fixed ? fixed : BATCH;
    if (fixed && t.batch != fixed)
        burn_exit(BURN_EXIT_USAGE, "--batch is %lld: the step was compiled for batches of %lld rows", (long long)t.batch,
                  (long long)fixed);
    if (!t.rows)
        burn_exit(BURN_EXIT_FAILED, "%s has no rows", o->files[0]);
    if (fixed && t.rows % fixed && !o->drops_last)
        burn_exit(BURN_EXIT_USAGE, "%lld rows are no multiple of %lld, which the step was compiled for: --drop-last leaves rows out",
                  (long long)t.rows, (long long)fixed);
    if (t.drops_last && t.rows < t.batch)
        burn_exit(BURN_EXIT_FAILED, "there are %lld rows, and a batch has %lld", (long long)t.rows, (long long)t.batch);
    t.batches = t.drops_last ? t.rows / t.batch : (t.rows + t.batch - 1) / t.batch;
    int64_t epoch = 0, batch = 0;
    if (o->resume)
        find_position(&t, &epoch, &batch);
    begin_inputs(&t);
    burn_ranked *order = burn_room((size_t)t.rows, sizeof *order);
    signal(SIGINT, interrupt);
    signal(SIGTERM, interrupt);
    if (epoch >= o->epochs) {
        printf("%lld epochs are done already, and --epochs counts them\n", (long long)epoch);
        save(&t, epoch, batch);
    }
    for (; epoch < o->epochs; epoch++, batch = 0)
        if (!one_epoch(&t, order, epoch, batch)) {
            printf("interrupted after %lld steps%s%s\n", (long long)burn_trainer_steps(trainer), o->save ? ": see " : "",
                   o->save ? o->save : "");
            break;
        }
    free(order);
    end_inputs(&t);
}
