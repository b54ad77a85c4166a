"""
The attack corpus and its runner: proof, on this machine, of what each tier stops.

``model`` says what an attack is; ``arena`` gives one its canaries and a way in; ``corpus`` holds the shipped ones, one
file each; ``runner`` runs them and ``report`` shows what came of it.  Other distributions add attacks with an entry
point in the group ``fastness.attacks`` that names a package laid out like ``corpus``.
"""
