"""Every error and warning undrift raises on purpose.

```
UndriftError
├── InputError (ValueError)        an argument or a row that cannot be used; nothing was changed
│   ├── LearnedBeforeError         a file whose rows were learned before; nothing is to be done
│   └── RequestSizeError           a request to a service that holds too much; split it
├── DataError (ValueError)         a file of rows that cannot be used; the text says where and what to do
├── ModelFileError (ValueError)    a file that is not a whole, readable undrift file
├── ConditionError (ValueError)    a theorem's condition or a certificate's assumption does not hold
├── UnavailableError               a service that cannot answer for now; the text says why
└── MissingExtraError (ImportError)  an optional dependency is not installed
UndriftWarning (UserWarning)       worth knowing, not worth stopping for
```
"""

from __future__ import annotations


class UndriftError(Exception):
    """Base of every deliberate error."""


class InputError(UndriftError, ValueError):
    """An argument or a row cannot be used; the object is as it was before the call."""


class LearnedBeforeError(InputError):
    """A file was learned before, so that nothing is to be done; the command `undrift update` ends with 0."""


class RequestSizeError(InputError):
    """A request to a service holds more than it may; the text says how much that is."""


class DataError(UndriftError, ValueError):
    """A file of rows cannot be used; the text names the file, the line, and what to do."""


class ModelFileError(UndriftError, ValueError):
    """A file is truncated, damaged, from a newer version, or not ours."""


class ConditionError(UndriftError, ValueError):
    """A theorem's condition or a certificate's assumption does not hold."""


class UnavailableError(UndriftError):
    """A service cannot answer for now: its state could not be restored from its journal."""


class MissingExtraError(UndriftError, ImportError):
    """An optional dependency is missing; the text has the install line."""


class UndriftWarning(UserWarning):
    """Worth knowing, not worth stopping for."""
