"""A thread imports a coordinator before its topic is created."""

from __future__ import annotations

import subprocess
import sys


def test_import_for_a_topic_imports_the_modules_of_its_coordinator() -> None:
    """In a process of its own, where nothing of it is imported yet."""
    code = """
import sys, trio
from kwire.coordinators.runtime.coordinators import _MODULES, Coordinators
for topic, modules in _MODULES.items():
    assert not sys.modules.keys() & set(modules), topic
    trio.run(Coordinators.import_for, topic)
    assert sys.modules.keys() >= set(modules), topic
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
