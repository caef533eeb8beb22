"""Converted runs watch their own invariants: what is alike on all ranks by construction is compared now and then.

    DISTIFY_WATCH=off|warn|on     on is the default; so says `rt.init_process_group(watch=...)`, too
    DISTIFY_HANG_TIMEOUT=300      seconds without progress on any rank; 0: for ever

Ranks leave what they see in the store and never wait for each other. Rank 0 compares it at one of its next steps, and
ends the run. Each invariant is one file here; `docs/architecture/watch.md` has a table of them.
"""
