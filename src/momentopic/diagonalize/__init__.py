"""A whitened tensor (or projections of it) in, an orthogonal matrix out."""

from momentopic.diagonalize.joint import joint_diagonalize, random_projections
from momentopic.diagonalize.power import tensor_power
from momentopic.diagonalize.result import Diagonalization
from momentopic.diagonalize.spectral import spectral

__all__ = ["Diagonalization", "joint_diagonalize", "random_projections", "spectral", "tensor_power"]
