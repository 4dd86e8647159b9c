"""A piece of work that may block, handed from the loop to a thread and back."""

from __future__ import annotations

from collections.abc import Callable


class Job:
    """`run` in any thread; then `finish` on the loop, which learns whether it failed.

    `run` touches nothing that the loop touches.  A job that failed with an OSError keeps it in
    `error`; its `finish` takes the log directory offline.
    """

    __slots__ = ("_finish", "_work", "error", "what")

    def __init__(
        self,
        what: str,
        work: Callable[[], None],
        finish: Callable[[OSError | None], None] | None = None,
    ) -> None:
        """Describe the work; `what` names it in messages, as in "remove segments of t-0".

        `work` runs in a thread; `finish` runs on the loop afterwards, with the error or None.
        """
        self.what = what
        self.error: OSError | None = None
        self._work = work
        self._finish = finish

    def __repr__(self) -> str:
        return f"Job({self.what})"

    def run(self) -> None:
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
