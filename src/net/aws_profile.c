/* aws_profile.c - sections in brackets and "key = value" lines. A line that begins with a blank
 * continues a nested setting, which no setting read here is. */
#include "net/aws_profile.h"

#include <string.h>

struct profile_line {
    const char *text;
    size_t len;
};

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\r';
}

static struct profile_line trim(const char *text, size_t len)
{
    while (len > 0 && is_blank(text[0])) {
        text++;
        len--;
    }
    while (len > 0 && is_blank(text[len - 1]))
        len--;
    return (struct profile_line) { text, len };
}

static bool is_word(struct profile_line line, const char *word)
{
    return line.len == strlen(word) && memcmp(line.text, word, line.len) == 0;
}

/* Whether "[...]" in @line is the section of @profile. */
static bool is_section(struct profile_line line, bool config, const char *profile)
{
    static const char front[] = "profile";
    const char *end = memchr(line.text, ']', line.len);
    struct profile_line name;

    if (end == NULL)
        return false;
    name = trim(line.text + 1, (size_t)(end - line.text) - 1);
    if (config && name.len > sizeof front - 1 && memcmp(name.text, front, sizeof front - 1) == 0 &&
        is_blank(name.text[sizeof front - 1])) {
        name = trim(name.text + sizeof front - 1, name.len - (sizeof front - 1));
        return is_word(name, profile);
    }
    return is_word(name, profile) && (!config || strcmp(profile, "default") == 0);
}

/* The value of @key on @line; false: it is another setting. */
static bool read_setting(struct profile_line line, const char *key, struct profile_line *ret_value)
{
    const char *equal = memchr(line.text, '=', line.len);

    if (equal == NULL || is_blank(line.text[0]) ||
        !is_word(trim(line.text, (size_t)(equal - line.text)), key))
        return false;
    *ret_value = trim(equal + 1, line.len - (size_t)(equal - line.text) - 1);
    for (size_t i = 1; i < ret_value->len; i++) {
        bool comment = ret_value->text[i] == '#' || ret_value->text[i] == ';';
        if (comment && is_blank(ret_value->text[i - 1])) {
            *ret_value = trim(ret_value->text, i);
            break;
        }
    }
    return true;
}

/* Find the section, and in it @key unless that is NULL. */
static bool find(const char *text, bool config, const char *profile, const char *key,
                 struct profile_line *ret_value)
{
    bool inside = false;
    bool found = false;

    while (*text != '\0') {
        struct profile_line line = { text, strcspn(text, "\n") };
        text += line.len + (text[line.len] == '\n');
        if (line.len > 0 && line.text[0] == '[') {
            inside = is_section(line, config, profile);
            if (inside && key == NULL)
                return true;
        } else if (inside && key != NULL && line.len > 0) {
            found = read_setting(line, key, ret_value) || found; /* The last one counts. */
        }
    }
    return found;
}

bool tn_aws_profile_get(const char *text, bool config, const char *profile, const char *key,
                        char *ret_value, size_t size)
{
    struct profile_line value;

    if (!find(text, config, profile, key, &value) || value.len >= size)
        return false;
    memcpy(ret_value, value.text, value.len);
    ret_value[value.len] = '\0';
    return true;
}

bool tn_aws_profile_exists(const char *text, bool config, const char *profile)
{
    return find(text, config, profile, NULL, NULL);
}
