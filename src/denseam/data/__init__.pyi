from .arrays import ArrayFamily as ArrayFamily
from .encoder import Encoder as Encoder
from .gaussian import anisotropic as anisotropic
from .gaussian import isotropic as isotropic
from .images import plaquettes as plaquettes
from .preparation import Preparation as Preparation
from .sources import source as source
