"""What is known of databases that are asked in SQL, by Python's interface to them (PEP 249)."""

from __future__ import annotations

import re

EXECUTES = "execute"  # one statement
FETCHES = frozenset("fetchone fetchmany fetchall".split())  # what a statement gives
#: Of a connection: what has it commit though nobody calls `commit`.
COMMITTING = ("isolation_level", "autocommit")
#: How a statement begins that changes nothing; and a text of which only the beginning is seen.
ASKING = ("SELECT", "PRAGMA", "EXPLAIN", "ATTACH")
SELECTS = re.compile(r"\s*(SELECT|EXPLAIN)\s", re.IGNORECASE)
#: What asks for rows at random, which databases draw by themselves: `SELECT * FROM rows ORDER BY RANDOM() LIMIT 8`.
AT_RANDOM = re.compile(r"\b(SELECT|ORDER\s+BY)\b.*\bRAND(OM)?\s*\(\s*\)", re.IGNORECASE | re.DOTALL)
