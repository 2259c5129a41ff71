"""A batch of images, with progress; Ctrl-C ends it after the step in progress."""

import headroom


def show(step: int, milliseconds: float) -> None:
    print(f"step {step + 1}: {milliseconds:.1f} ms")


pipeline = headroom.Pipeline("fashion-flux")
images = pipeline(["a red dress", "a handbag", "a sneaker"], seed=1, steps=4, callback=show)
print(f"{len(images)} images, the first of mean {images[0].numpy().mean():.0f}")
