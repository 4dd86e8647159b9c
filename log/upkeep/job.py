"""A piece of work that may block, handed from the loop to a thread and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator


class Job:
    """`run` in any thread; then `finish` on the loop, which learns whether it failed.

    Before `run` the loop may take the job's `steps`, each a millisecond of work or less, and let
    other tasks run between them.  `run` touches nothing that the loop touches.  A job that failed
    with an OSError keeps it in `error`; its `finish` takes the log directory offline.
    """

    __slots__ = ("_finish", "_work", "error", "steps", "what")

    def __init__(
        self,
        what: str,
        work: Callable[[], None],
        finish: Callable[[OSError | None], None] | None = None,
        steps: Iterator[None] | None = None,
    ) -> None:
        """Describe the work; `what` names it in messages, as in "remove segments of t-0".

        `steps` run on the loop, then `work` in a thread; `finish` runs on the loop afterwards, with
        the error or None.
        """
        self.what = what
        self.error: OSError | None = None
        self._work = work
        self._finish = finish
        self.steps: Iterator[None] = iter(()) if steps is None else steps

    def __repr__(self) -> str:
        return f"Job({self.what})"

    def run(self) -> None:
        """Do the work, and the steps that are left."""
        for _ in self.steps:
            pass
        try:
            self._work()
        except OSError as error:
            self.error = error

    def finish(self) -> None:
        if self._finish is not None:
            self._finish(self.error)


def run_all(jobs: list[Job]) -> None:
    """Run and finish all jobs in this thread (at start, stop, and in tests)."""
    for job in jobs:
        job.run()
        job.finish()
