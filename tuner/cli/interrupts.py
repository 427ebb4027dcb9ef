"""The exceptions that SIGINT and SIGTERM raise, so that workers and files are closed before `tune` exits."""


class Terminated(BaseException):
    """Raised by SIGTERM and SIGHUP. A BaseException, so that no handler of ordinary errors catches it."""


INTERRUPTS = (KeyboardInterrupt, Terminated)
