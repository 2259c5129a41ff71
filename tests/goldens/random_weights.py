"""Random weights of small models, for the scripts that make goldens."""

import math

import torch

from diffusers import AutoencoderKLFlux2

# float16 has 11 and cannot represent half of such numbers; bf16 has 8 and cannot represent 15 of 16
SIGNIFICANT_BITS = 12


def randomize(model, generator):
    """Weights of 1/sqrt(fan_in), biases of 0.1, gains around 1: no zeros, and activations of order 1."""
    for name, parameter in sorted(model.named_parameters()):
        draw = torch.randn(parameter.shape, generator=generator)
        if parameter.ndim >= 2:
            parameter.data = draw / math.sqrt(parameter[0].numel())
        elif name.endswith("bias"):
            parameter.data = 0.1 * draw
        else:
            parameter.data = 1 + 0.2 * draw
    if isinstance(model, AutoencoderKLFlux2):
        model.bn.running_mean = 0.3 * torch.randn(model.bn.running_mean.shape, generator=generator)
        model.bn.running_var = 0.5 + torch.rand(model.bn.running_var.shape, generator=generator)


def round_weights(model):
    """Rounds final F32 weights to 12 significant bits in place, so that zlib packs a file to two thirds."""
    for parameter in model.parameters():
        mantissa, exponent = torch.frexp(parameter.data)
        parameter.data.copy_(torch.ldexp(torch.round(mantissa * 2**SIGNIFICANT_BITS), exponent - SIGNIFICANT_BITS))
