from tests.strict import _no_silent_ranks as _no_silent_ranks
