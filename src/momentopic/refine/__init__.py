"""From a good start to the best topics: sweeps over the corpus."""

from momentopic.refine.collapsed import Refined, refine_collapsed, split_topics

__all__ = ["Refined", "refine_collapsed", "split_topics"]
