from .arrays import ArrayFamily as ArrayFamily
from .encoder import Encoder as Encoder
from .gaussian import anisotropic as anisotropic
from .gaussian import isotropic as isotropic
from .preparation import Preparation as Preparation
from .reductions import Whole as Whole
from .reductions import plaquettes as plaquettes
from .sources import source as source
