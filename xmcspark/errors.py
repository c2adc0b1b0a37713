"""The errors users see. Each message says what was wrong, where, what was expected and how to fix it."""


class InputError(ValueError):
    """The data given cannot be used as it is: malformed, empty, or not matching its companions."""


class ConfigError(ValueError):
    """One or more settings are wrong. Carries all the problems found, not just the first."""

    def __init__(self, problems: list[str]):
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))
