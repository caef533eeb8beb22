"""Conversions beside their originals: which files get a twin, and how imports are pointed at it."""

from distify_codemods.twins.others import Others
from distify_codemods.twins.project import Twins, twin_path, twins_of

__all__ = ["Others", "Twins", "twin_path", "twins_of"]
