"""What models/live-ink was trained on: made videos (`scenes`), a camera's noise (`camera`) and what each frame is to
become (`ink`).

Everything follows from a clip's seed by integer hashing, so that src/media/video/made_scene.cpp and ink.cpp, by which
the model is judged, make the same: the golden of tests/goldens/make_live_ink.py holds them to each other. Frames are
[clips, frames, 3, side, side] in [0, 1]. It needs PyTorch alone.
"""

import math

import torch
import torch.nn.functional as F

SHAPES = 5
MASK = 0xFFFFFFFF
# Of the ink's five tones, from the darkest.
PALETTE = ((0.10, 0.11, 0.23), (0.35, 0.22, 0.38), (0.72, 0.36, 0.33), (0.91, 0.67, 0.43), (0.97, 0.92, 0.80))
TONE_SHARPNESS = 10.0  # of the steps between tones
# standard deviations in pixels: of the blurred image that tones come from, and of the one that contours differ from
SMOOTHING, SURROUND = 1.0, 2.0
CONTOUR_AT, CONTOUR_WIDTH, CONTOUR_INK = 0.03, 0.012, 0.85
LUMA = (0.299, 0.587, 0.114)


# ---- numbers from seeds


def hashed(seed, index):
    """32 well mixed bits of two integers (the finalizer "lowbias32"). int64 tensors, of which the low 32 bits count."""
    h = (seed * 0x9E3779B1 + index * 0x85EBCA77) & MASK
    h = ((h ^ (h >> 16)) * 0x7FEB352D) & MASK
    h = ((h ^ (h >> 15)) * 0x846CA68B) & MASK
    return h ^ (h >> 16)


class Draws:
    """The next number of each clip, [clips, 1, 1, 1], evenly from an interval."""

    def __init__(self, seeds):
        self.seeds, self.count = seeds, 0

    def __call__(self, low, high):
        bits = hashed(self.seeds, torch.full_like(self.seeds, self.count))
        self.count += 1
        return (low + (high - low) * (bits.double() / 2**32)).float()[:, None, None, None]

    def colour(self):
        return torch.stack([self(0.05, 0.95) for _ in range(3)], dim=2)  # [clips, 1, 3, 1, 1]

    def wave(self, t, low, high, slow, fast):
        """A swing of drawn size, speed and phase."""
        size, speed, phase = self(low, high), self(slow, fast), self(0, 2 * math.pi)
        return size * torch.sin(speed * t + phase)


# ---- scenes


def turned(x, y, angle):
    c, s = torch.cos(angle), torch.sin(angle)
    return c * x - s * y, s * x + c * y


def value_noise(x, y, seeds):
    """Smoothly interpolated random numbers of a lattice."""
    left, top = torch.floor(x), torch.floor(y)
    fx, fy = x - left, y - top
    fx, fy = fx * fx * (3 - 2 * fx), fy * fy * (3 - 2 * fy)
    i, j = left.long() & 0xFFFF, top.long() & 0xFFFF
    seeds = seeds[:, None, None, None]

    def at(di, dj):
        place = (((j + dj) & 0xFFFF) << 16) | ((i + di) & 0xFFFF)
        return (hashed(seeds, place) >> 8).float() / 2**24

    upper = at(0, 0) + fx * (at(1, 0) - at(0, 0))
    lower = at(0, 1) + fx * (at(1, 1) - at(0, 1))
    return upper + fy * (lower - upper)


def texture(draw, x, y):
    """Plain, striped, chequered or noisy, between two colours. x, y [clips, frames, h, w] -> [clips, frames, 3, h,
    w]
    """
    kind = torch.floor(draw(0, 4))
    along, _ = turned(x, y, draw(0, 2 * math.pi))
    stripes = 0.5 + 0.5 * torch.sin(2 * math.pi * draw(0.5, 3) * along + draw(0, 2 * math.pi))
    size = math.pi * draw(0.7, 3)
    checks = 0.5 + 0.5 * torch.tanh(4 * torch.sin(size * x) * torch.sin(size * y))
    fine = draw(1, 6)
    noise = 0.65 * value_noise(fine * x, fine * y, draw.seeds + draw.count)
    noise = noise + 0.35 * value_noise(2 * fine * x, 2 * fine * y, draw.seeds + draw.count + 1)
    slope = 0.5 + 0.25 * along.clamp(-2, 2)
    pattern = torch.where(kind == 0, slope, torch.where(kind == 1, stripes, torch.where(kind == 2, checks, noise)))
    share = (0.5 + draw(0.2, 1) * (pattern - 0.5))[:, :, None]
    first, second = draw.colour(), draw.colour()
    return first + (second - first) * share


def scenes(seeds, first, frames, side=64):
    """Frames `first` and on of each seed's clip: a textured ground under a moving camera, and shapes that move over
    it.
    """
    device = seeds.device
    draw = Draws(seeds)
    t = torch.arange(first, first + frames, device=device).float()[None, :, None, None]
    line = (torch.arange(side, device=device).float() + 0.5) / side * 2 - 1
    x, y = line[None, None, None, :].expand(1, 1, side, side), line[None, None, :, None].expand(1, 1, side, side)

    wx, wy = turned(x, y, draw(-0.5, 0.5) + draw(-0.01, 0.01) * t)
    zoom = torch.exp(draw(-0.4, 0.4) + draw.wave(t, 0, 0.3, 0.02, 0.1))
    wx = zoom * wx + draw(-4, 4) + draw(-0.03, 0.03) * t
    wy = zoom * wy + draw(-4, 4) + draw(-0.03, 0.03) * t
    image = texture(draw, wx, wy)
    for _ in range(SHAPES):
        lx = x - (draw(-0.9, 0.9) + draw.wave(t, 0.1, 0.7, 0.02, 0.1))
        ly = y - (draw(-0.9, 0.9) + draw.wave(t, 0.1, 0.7, 0.02, 0.1))
        lx, ly = turned(lx, ly, draw(-math.pi, math.pi) + draw(-0.05, 0.05) * t)
        radius = draw(0.15, 0.6)
        lx, ly = lx / radius * draw(0.7, 1.5), ly / radius
        petals, bulge = torch.floor(draw(0, 7)), draw(0, 0.25)
        is_box = draw(0, 1) < 0.4
        squares = lx * lx + ly * ly
        distance = torch.where(is_box, (lx**6 + ly**6) ** (1 / 6), squares.sqrt())
        distance = distance - 1 - bulge * torch.cos(petals * torch.atan2(ly, lx))
        cover = (0.5 - distance * radius * side / 3).clamp(0, 1)[:, :, None]
        shape = texture(draw, lx, ly) * (1 - 0.25 * ly.clamp(-1, 1))[:, :, None]
        image = image + cover * (shape - image)
    light = 1 + draw.wave(t, 0, 0.12, 0.02, 0.15)
    return (image * light[:, :, None]).clamp(0, 1)


def camera(frames, deviation, generator=None):
    """What a camera with noise makes of frames, in 8 bits. `deviation` broadcasts over them."""
    noise = torch.randn(frames.shape, device=frames.device, generator=generator)
    return ((frames + deviation * noise).clamp(0, 1) * 255).round() / 255


# ---- the teacher


def blurred(image, deviation):
    """A Gaussian of three deviations each way; beyond its edges an image goes on as it ends. [n, 1, h, w]"""
    reach = math.ceil(3 * deviation)
    place = torch.arange(-reach, reach + 1, device=image.device, dtype=image.dtype)
    weight = torch.exp(-place * place / (2 * deviation * deviation))
    weight = weight / weight.sum()
    image = F.conv2d(F.pad(image, (reach, reach, 0, 0), mode="replicate"), weight[None, None, None, :])
    return F.conv2d(F.pad(image, (0, 0, reach, reach), mode="replicate"), weight[None, None, :, None])


def ink(frames):
    """A print in five inks: each pixel's smoothed brightness falls softly onto one of five tones, and the dark sides
    of edges, where a difference of Gaussians is negative, become contours of the darkest. [..., 3, h, w] in [0, 1]
    -> the same"""
    shape = frames.shape
    frames = frames.reshape(-1, *shape[-3:])
    luma = sum(weight * frames[:, c : c + 1] for c, weight in enumerate(LUMA))  # [n, 1, h, w]
    smooth = blurred(luma, SMOOTHING)
    height = smooth.clamp(0, 1) * (len(PALETTE) - 1)
    floor = torch.floor(height).clamp(max=len(PALETTE) - 2)
    rise = 0.5 + 0.5 * torch.tanh(TONE_SHARPNESS * (height - floor - 0.5)) / math.tanh(TONE_SHARPNESS / 2)
    palette = torch.tensor(PALETTE, device=frames.device, dtype=frames.dtype)
    tone = floor[:, 0].long()  # [n, h, w]
    low, high = palette[tone].permute(0, 3, 1, 2), palette[tone + 1].permute(0, 3, 1, 2)
    printed = low + (high - low) * rise
    contour = CONTOUR_INK * torch.sigmoid((blurred(luma, SURROUND) - smooth - CONTOUR_AT) / CONTOUR_WIDTH)
    return (printed + contour * (palette[0][None, :, None, None] - printed)).reshape(shape)


# ---- what a stream is judged by


def psnr(frames, wanted):
    """In dB, of each clip. [clips, frames, 3, h, w] -> [clips]"""
    return -10 * (frames - wanted).square().mean((1, 2, 3, 4)).log10()


def flicker(frames):
    """How far a frame is from the mean of the two around it, root mean square: of each clip. [clips, frames, 3, h,
    w] -> [clips]
    """
    middle = frames[:, 1:-1] - (frames[:, :-2] + frames[:, 2:]) / 2
    return middle.square().mean((1, 2, 3, 4)).sqrt()
