"""The transaction coordinator: the states of transactional ids."""
