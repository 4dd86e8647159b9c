"""Which versions each release of Apache Kafka tells its clients of, API by API.

Made by tools/releases.py of the releases' own ApiKeys; up to 3.2 as a broker on ZooKeeper says it,
from 3.3 on as one on KRaft.  What a broker did not list is not here.
"""

from __future__ import annotations

from functools import cache
from typing import Final

CHANGES: Final = {
    "2.1": (
        "0:7 1:10 2:4 3:7 4:1 5:0 6:4 7:1 8:6 9:5 10:2 11:3 12:2 13:2 14:2 15:2 16:2 17:1 18:2 "
        "19:3 20:3 21:1 22:1 23:2 24:1 25:1 26:1 27:0 28:2 29:1 30:1 31:1 32:2 33:1 34:1 35:1 "
        "36:0 37:1 38:1 39:1 40:1 41:1 42:1"
    ),
    "2.2": "2:5 4:2 5:1 6:5 7:2 11:4 36:1 43:0",
    "2.3": "1:11 3:8 8:7 11:5 12:3 14:3 15:3 23:3 44:0",
    "2.4": (
        "0:8 3:9 4:4 5:2 6:6 7:3 8:8 9:6 10:3 11:6 12:4 13:4 14:4 15:5 16:3 18:3 19:5 20:4 "
        "22:2 38:2 42:2 43:2 44:1 45:0 46:0 47:0"
    ),
    "2.5": "9:7 11:7 14:5 22:3 28:3 29:2 30:2 31:2 36:2 37:2 39:2 40:2 41:2",
    "2.6": "5:3 16:4 21:2 32:3 35:2 48:0 49:0",
    "2.7": "1:12 19:6 20:5 22:4 24:2 25:2 26:2 37:3 50:0 51:0 56:0 57:0",
    "2.8": (
        "0:9 2:6 3:11 4:5 6:7 19:7 20:6 23:4 24:3 25:3 26:3 27:1 32:4 33:2 34:2 48:1 49:1 60:0 61:0"
    ),
    "3.0": "2:7 9:8 10:4 65:0 66:0 67:0",
    "3.1": "1:13 3:12",
    "3.2": "4:6 11:9 13:5 35:3 56:1",
    "3.3": "29:3 30:3 31:3 35:4 55:1 57:1 64:0 -4 -5 -6 -7 -38 -39 -40 -41 -50 -51 -56 -67",
    "3.4": "",
    "3.5": "1:15 2:8 50:0 51:0",
    "3.6": "24:4 38:3 39:2 40:2 41:3",
    "3.7": "0:10 1:16 8:9 9:9 60:1 68:0 71:0 72:0 74:0",
    "3.8": "0:11 10:5 16:5 22:5 24:5 25:4 26:4 28:4 66:1 69:0 75:0",
    "3.9": "1:17 2:9 10:6 18:4 55:2 80:0 81:0",
    "4.0": "0:12 2:10 3:13 15:6 26:5 28:5 57:2 60:2 68:1 69:1",
    "4.1": "0:13 1:18 45:1 66:2 74:1 76:1 77:1 78:1 79:1 83:0 84:0 85:0 86:0 87:0 90:0 91:0 92:0",
    "4.2": "2:11 8:10 9:10 27:2 78:2 79:2 80:1 85:1 87:1 88:0 89:0 90:1",
    "4.3": "35:5",
}
"""By release, what is different from the one before: `key:highest`, and `-key` where it went."""


@cache
def versions_of(release: str) -> dict[int, int]:
    """API key -> highest version.  KeyError if there is no such release."""
    versions: dict[int, int] = {}
    for each, changes in CHANGES.items():
        for change in changes.split():
            if change.startswith("-"):
                del versions[int(change[1:])]
            else:
                key, _, highest = change.partition(":")
                versions[int(key)] = int(highest)
        if each == release:
            return versions
    raise KeyError(release)
