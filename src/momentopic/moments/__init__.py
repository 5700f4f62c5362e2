"""From sums over documents to S and T, and the whitening of S."""

from momentopic.moments.base import Moments
from momentopic.moments.basis import Basis, BasisMismatchError, find_basis
from momentopic.moments.dica import DICAMoments, dica_moments
from momentopic.moments.lda import LDAMoments, lda_moments
from momentopic.moments.pooling import pooled, sketched_moments
from momentopic.moments.population import PopulationMoments, gamma_poisson_population, lda_population
from momentopic.moments.sketched import SketchedMoments
from momentopic.moments.vocabulary import vocabulary_projections
from momentopic.moments.whiten import Whitening, whiten

__all__ = [
    "Basis",
    "BasisMismatchError",
    "DICAMoments",
    "LDAMoments",
    "Moments",
    "PopulationMoments",
    "SketchedMoments",
    "Whitening",
    "dica_moments",
    "find_basis",
    "gamma_poisson_population",
    "lda_moments",
    "lda_population",
    "pooled",
    "sketched_moments",
    "vocabulary_projections",
    "whiten",
]
