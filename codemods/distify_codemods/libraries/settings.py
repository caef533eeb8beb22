"""Objects that hold settings: namespaces, dictionaries with attributes, configurations that are read from files."""

from __future__ import annotations

#: Whose objects are told by their methods, by names that nobody sees, what they hold: `cfg.merge_from_file(path)`.
LIBRARIES = tuple(
    """yacs. easydict. edict. munch. addict. attrdict. dotmap. box. bunch. ml_collections. omegaconf. mmcv.Config
    mmengine.Config configparser. pyhocon. dynaconf. confuse. sacred. configargparse. jsonargparse.""".split()
)
#: Of which the attributes are what they are given by name, or the items of a dictionary.
NAMESPACES = frozenset(
    """types.SimpleNamespace argparse.Namespace easydict.EasyDict edict.EasyDict munch.Munch munch.DefaultMunch
    addict.Dict attrdict.AttrDict dotmap.DotMap box.Box ml_collections.ConfigDict omegaconf.OmegaConf.create
    bunch.Bunch mmcv.ConfigDict""".split()
)
#: Methods that tell what such an object holds, and change nothing in it.
READING = frozenset(
    """get getint getfloat getboolean keys items values sections options has_section has_option copy clone dump freeze
    defrost is_frozen lock unlock to_dict toDict to_yaml is_new_allowed write""".split()
)
