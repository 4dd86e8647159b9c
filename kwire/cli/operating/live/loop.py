"""The live screen of `kwire top`: draws samples as they come, and answers keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from kwire.cli.operating.live.choice import TopChoice
from kwire.cli.operating.live.rows import TopView
from kwire.cli.operating.live.sample import TopSample
from kwire.cli.operating.live.sampling import TopSampler
from kwire.cli.operating.live.screen import drawn
from kwire.cli.operating.live.terminal import keys_at_once, pressed
from kwire.cli.operating.live.view import view_of
from kwire.cli.text.output import printable


@dataclass(slots=True)
class TopScreen:
    """What the screen shows now."""

    choice: TopChoice = field(default_factory=TopChoice)
    view: TopView | None = None
    trouble: str | None = None
    _before: TopSample | None = None

    def take(self, sample: TopSample | None, trouble: str | None) -> None:
        """Show a newer sample; while the screen is paused it only counts as the earlier one."""
        self.trouble = trouble
        if sample is None or sample is self._before:
            return
        if self._before is not None and not self.choice.is_paused:
            self.view = view_of(self._before, sample)
        self._before = sample

    def press(self, key: str) -> None:
        self.choice = self.choice.after(key)

    def drawn(self, width: int, lines: int) -> RenderableType:
        """The whole screen of a terminal."""
        if self.view is None:
            waiting = "taking two samples ... (q quits)"
            return Text(printable(self.trouble) if self.trouble else waiting)
        return drawn(self.view, self.choice, width, lines, self.trouble)


def run(take: Callable[[], TopSample], interval_s: float) -> None:
    """Show the screen until q, or until the terminal is gone."""
    console = Console()
    screen = TopScreen()
    with (
        keys_at_once() as keyboard,
        TopSampler(take, interval_s) as sampler,
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        while not screen.choice.is_over:
            live.update(screen.drawn(console.size.width, console.size.height), refresh=True)
            keys = pressed(keyboard, [sampler.readable], None)
            if keys is None:
                return
            if not keys:
                screen.take(*sampler.newest())
            for key in keys:
                screen.press(key)
