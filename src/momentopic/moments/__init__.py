"""From sums over documents to S and T, and the whitening of S."""

from momentopic.moments.base import Moments
from momentopic.moments.dica import DICAMoments, dica_moments
from momentopic.moments.lda import LDAMoments, lda_moments
from momentopic.moments.population import PopulationMoments, gamma_poisson_population, lda_population
from momentopic.moments.vocabulary import vocabulary_projections
from momentopic.moments.whiten import Whitening, whiten

__all__ = [
    "DICAMoments",
    "LDAMoments",
    "Moments",
    "PopulationMoments",
    "Whitening",
    "dica_moments",
    "gamma_poisson_population",
    "lda_moments",
    "lda_population",
    "vocabulary_projections",
    "whiten",
]
