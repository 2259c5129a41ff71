"""The exceptions of headroom. Their messages are one sentence for a person."""


class Error(RuntimeError):
    """A failure that the caller can correct: an invalid file, checkpoint, tensor or device."""


class UsageError(Error, ValueError):
    """An invalid request: an unknown name or switch, or an unsupported size."""


class OutOfMemory(Error, MemoryError):
    """The device or the host lacks memory. A smaller request may still fit."""


class InternalError(AssertionError):
    """A fault in headroom itself."""
