"""The one exception that Fettle raises where something was refused."""


class Error(Exception):
    """Something was refused.

    code         "E204", as `fettle explain E204` explains it
    message      one sentence of specifics
    place        the primitive, node, file or line
    meaning      what the code means
    remedy       what to do about it
    explanation  all of that and, of a step of a schedule, the program with the place marked
    """

    def __init__(self, code, message="", place="", meaning="", remedy="", _diagnostic=None):
        super().__init__(code, message, place)
        self.code = code
        self.message = message
        self.place = place
        self.meaning = meaning
        self.remedy = remedy
        self._diagnostic = _diagnostic

    def __str__(self):
        text = self.code
        if self.meaning:
            text += ": " + self.meaning
        details = ": ".join(part for part in (self.place, self.message) if part)
        if details:
            text += f" ({details})" if self.meaning else ": " + details
        if self.remedy:
            text += "; " + self.remedy
        return text

    @property
    def explanation(self):
        """All that is known of it, as text."""
        return self._diagnostic.explain() if self._diagnostic is not None else str(self)
