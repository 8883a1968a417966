"""Callers that flood a site, in a process of their own: python flooder.py PORT PATH CALLERS REQUESTS.

Each request has a connection of its own, as those of clients that come once. Prints a `Flood` as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field


@dataclass
class Flood:
    """What became of requests."""

    statuses: dict[str, int] = field(default_factory=dict)
    undecided: int = 0
    """How many of those with status 200 tell of no limit."""
    took_ms: list[float] = field(default_factory=list)

    def add(self, other: Flood) -> None:
        for status, n in other.statuses.items():
            self.statuses[status] = self.statuses.get(status, 0) + n
        self.undecided += other.undecided
        self.took_ms += other.took_ms

    def count(self, status: int) -> int:
        return self.statuses.get(str(status), 0)

    def __str__(self) -> str:
        took = sorted(self.took_ms)
        half, late = took[len(took) // 2], took[len(took) * 99 // 100]
        return f"by status {self.statuses}, half within {half:.0f} ms, 99 % within {late:.0f} ms"


async def flood(port: int, path: str, callers: int, requests: int) -> Flood:
    result, left = Flood(), iter(range(requests))

    async def caller() -> None:
        for _ in left:
            began = time.perf_counter()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n".encode())
            response = (await reader.read()).lower()
            writer.close()
            result.took_ms.append((time.perf_counter() - began) * 1000)
            status = response[9:12].decode()
            result.statuses[status] = result.statuses.get(status, 0) + 1
            result.undecided += status == "200" and b"\r\nratelimit:" not in response

    await asyncio.gather(*(caller() for _ in range(callers)))
    return result


if __name__ == "__main__":
    print(json.dumps(vars(asyncio.run(flood(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))))
