"""What can go wrong when a server is asked."""


class RankError(RuntimeError):
    """The server refused the request; the text is the server's message.

    `status` is the gRPC status code ("INVALID_ARGUMENT") or the HTTP status ("400"), as the protocol gave it.
    """

    def __init__(self, message: str, status: str = "") -> None:
        super().__init__(message)
        self.status = status


class ServerUnavailableError(RankError):
    """Nobody answers at the address, or the model is not being served: worth asking again later."""


class ServerBusyError(RankError):
    """The server is there and has as many requests waiting as it allows: ask another, or less. Never asked again by
    itself, for that would be one more request to a server that has too many."""


class RankTimeoutError(RankError):
    """No answer in the time that the caller allowed."""
