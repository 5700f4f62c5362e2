"""From a good start to the best topics: sweeps over the corpus."""

from momentopic.refine.collapsed import refine_collapsed
from momentopic.refine.refined import Refined
from momentopic.refine.splitting import split_topics
from momentopic.refine.variational import Variational, variational_lda

__all__ = ["Refined", "Variational", "refine_collapsed", "split_topics", "variational_lda"]
