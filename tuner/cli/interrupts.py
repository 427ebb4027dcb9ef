"""SIGINT and SIGTERM as exceptions, so that workers and files are closed on the way out."""


class Terminated(BaseException):
    """SIGTERM as an exception, so that workers and files are closed on the way out."""


INTERRUPTS = (KeyboardInterrupt, Terminated)
