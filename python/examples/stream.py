"""The frames of a video, each made anew by a network: stream.py path/to/models/live-ink"""

import sys

import numpy

import headroom

network = headroom.Component(sys.argv[1], "cpu")
stream = headroom.Stream(network, height=64, width=64)
for number in range(4):
    picture = numpy.zeros((64, 64, 3), numpy.uint8)
    picture[8 * number : 8 * number + 32, 16:48] = (200, 40, 40)
    shown = stream.next(headroom.Image(picture))
    print(f"frame {number}: {shown}, mean {shown.tensor().numpy().mean():.0f}")
