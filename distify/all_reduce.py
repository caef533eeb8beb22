"""What each rank of `distify doctor --collective` runs: an all-reduce of little, and one of much.

distify run -np 2 -m distify.all_reduce [BYTES]
"""

from __future__ import annotations

import json
import sys
import time

SMALL, LARGE = 4, 2**24  # bytes
TIMES, WARM_UP = 20, 3


def main() -> None:
    """Rank 0 prints a JSON object: the backend, seconds of a small one and of a large one (of BYTES, 16 MiB else), and
    bytes that a rank sends in a second of the large one, as many as it receives.
    """
    import distify_runtime as rt
    import torch

    rt.init_process_group(watch="off")
    ranks, device = rt.world_size(), rt.device()

    def seconds(size: int) -> float:
        """Of one all-reduce: the median. Raises SystemExit where the sum is wrong."""
        taken = []
        for _ in range(TIMES):
            tensor = torch.ones(size // 4, device=device)
            began = time.perf_counter()
            torch.distributed.all_reduce(tensor)
            is_right = bool((tensor == ranks).all())  # waits for a GPU, too
            taken.append(time.perf_counter() - began)
            if not is_right:
                raise SystemExit(f"distify: {ranks} ranks have added up 1 each, and got {tensor[0].item():g}")
        return sorted(taken[WARM_UP:])[(TIMES - WARM_UP) // 2]

    size = max(SMALL, int(sys.argv[1]) if len(sys.argv) > 1 else LARGE)
    latency, large = seconds(SMALL), seconds(size)
    if rt.is_main_process():
        backend = "NCCL" if device.type == "cuda" else "Gloo"
        bandwidth = size * 2 * (ranks - 1) / ranks / large
        found = {"backend": backend, "latency": latency, "large": large, "bandwidth": bandwidth}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
