"""A process that forks while its threads are inside a library's model: every child can call the model."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.making import make, traced

CHILDREN = """
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "twice.h"

static twice_model *model;
static volatile int stop;

static int call(void) {
    float in[4] = {1, 2, 3, 4}, out[4] = {0};
    return twice_run(model, 4, in, out) || out[3] != 8;
}

static void *work(void *wrong) {
    while (!stop)
        if (call())
            *(int *)wrong = 1;
    return NULL;
}

int main(void) {
    enum { THREADS = 8, CHILDREN = 400, SECONDS = 20 };
    pthread_t threads[THREADS];
    int hung = 0, failed = 0, wrong = 0;
    if (twice_create(&model, NULL))
        return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, &wrong);
    for (int i = 0; i < CHILDREN && !hung; i++) {
        usleep(500);
        pid_t child = fork();
        if (child == 0) {
            alarm(SECONDS);
            _exit(call());
        }
        int status = 1;
        waitpid(child, &status, 0);
        hung += WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM;
        failed += status != 0;
    }
    stop = 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    twice_destroy(model);
    printf("hung %d, failed %d, wrong %d", hung, failed, wrong);
    return 0;
}
"""


def test_children_of_a_busy_process_run_the_model(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = make("static", traced(lambda x: x * 2.0, x="float32[n]"), tmp_path / "twice").parent
    (folder / "children.c").write_text(CHILDREN)
    command = [compiler, "-O1", "-D_GNU_SOURCE", "children.c", "-I.", "-L.", "-ltwice", "-lpthread", "-lm"]
    subprocess.run([*command, "-o", "children"], cwd=folder, check=True)
    done = subprocess.run([folder / "children"], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "hung 0, failed 0, wrong 0"), done.stderr
