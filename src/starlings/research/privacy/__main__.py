"""`python -m starlings.research.privacy`: attack all messages, print what was found."""

from starlings.research.privacy.table import every_attack, lines

if __name__ == "__main__":
    for line in lines(every_attack()):
        print(line, flush=True)
