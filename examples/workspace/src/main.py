"""Count words."""

GREETING = "Hello"


def count_words(text: str) -> int:
    """The number of words in a text."""
    return len(text.split())


def main() -> None:
    print(GREETING)
    print(count_words("one two three"))


if __name__ == "__main__":
    main()
