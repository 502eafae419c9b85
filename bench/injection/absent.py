"""Stands in for the packages that agentdojo imports and this campaign does not use: clients of model vendors.

No model is asked here, so they need not be installed. What is imported from them is an object that accepts anything.
"""

import importlib.abc
import importlib.machinery
import sys
from unittest.mock import MagicMock

NAMES = {"anthropic", "cohere", "dotenv", "google", "langchain", "openai", "requests", "rich", "tenacity", "torch",
         "transformers", "vertexai"}


class Absent(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module of those packages."""

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in NAMES else None

    def create_module(self, spec):
        module = MagicMock(name=spec.name)
        module.__name__, module.__path__, module.__spec__ = spec.name, [], spec
        return module

    def exec_module(self, module):
        pass


sys.meta_path.insert(0, Absent())
