/* aws_config.c - where the credentials come from: environment, profile, container or instance;
 * aws.h has the order. */
#include "net/aws_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/aws_profile.h"

enum { FILE_MAX = 1 << 20 };

const char *tn_aws_env(const char *name)
{
    const char *value = getenv(name);

    return value != NULL ? value : "";
}

bool tn_aws_set(char *ret_text, size_t size, const char *value)
{
    size_t len = strlen(value);

    if (len >= size)
        return false;
    memcpy(ret_text, value, len + 1);
    return true;
}

/* All of a file as a C string, to be freed; NULL: it cannot be read. */
char *tn_aws_read_file(const char *path)
{
    FILE *file = path[0] != '\0' ? fopen(path, "rbe") : NULL;
    char *text = file != NULL ? malloc(FILE_MAX) : NULL;
    size_t len = text != NULL ? fread(text, 1, FILE_MAX - 1, file) : 0;
    bool good = text != NULL && !ferror(file) && feof(file) && memchr(text, '\0', len) == NULL;

    if (file != NULL)
        (void)fclose(file);
    if (!good) {
        free(text);
        return NULL;
    }
    text[len] = '\0';
    return text;
}

/* The file that @variable names, else ~/.aws/NAME; an empty text if there is none. */
static char *read_aws_file(const char *variable, const char *name)
{
    char path[1024];
    char *text;

    if (tn_aws_env(variable)[0] != '\0')
        (void)snprintf(path, sizeof path, "%s", tn_aws_env(variable));
    else
        (void)snprintf(path, sizeof path, "%s/.aws/%s", tn_aws_env("HOME"), name);
    text = tn_aws_read_file(path);
    return text != NULL ? text : calloc(1, 1);
}

struct aws_files {
    char *credentials, *config;
};

/* Credentials come first, as with Amazon's tools. */
static bool find_setting(const struct aws_files *files, const char *profile, const char *key,
                         char *ret_value, size_t size)
{
    return tn_aws_profile_get(files->credentials, false, profile, key, ret_value, size) ||
           tn_aws_profile_get(files->config, true, profile, key, ret_value, size);
}

static bool find_keys(const struct aws_files *files, const char *profile,
                      struct tn_aws_keys *ret_keys)
{
    struct tn_aws_keys keys = { "", "", "" };

    if (!find_setting(files, profile, "aws_access_key_id", keys.id, sizeof keys.id) ||
        !find_setting(files, profile, "aws_secret_access_key", keys.secret, sizeof keys.secret))
        return false;
    (void)find_setting(files, profile, "aws_session_token", keys.token, sizeof keys.token);
    *ret_keys = keys;
    return true;
}

static int refuse_profile(const struct tn_aws *aws, const char *why, struct tn_text *reterr)
{
    tn_text_add(reterr, "the AWS profile '");
    tn_text_escape(reterr, aws->profile, strlen(aws->profile));
    tn_text_addf(reterr, "' %s", why);
    return TENURE_E_INVALID;
}

/* A profile that names a role. */
static int use_role(struct tn_aws *aws, const struct aws_files *files, struct tn_text *reterr)
{
    char lender[129];
    char unused[256];

    (void)find_setting(files, aws->profile, "role_session_name", aws->session, sizeof aws->session);
    (void)find_setting(files, aws->profile, "external_id", aws->external, sizeof aws->external);
    if (find_setting(files, aws->profile, "mfa_serial", unused, sizeof unused))
        return refuse_profile(aws, "asks for an MFA code, which tenure cannot enter", reterr);
    if (find_setting(files, aws->profile, "web_identity_token_file", aws->token_file,
                     sizeof aws->token_file)) {
        aws->source = SOURCE_WEB_IDENTITY;
        return 0;
    }
    if (!find_setting(files, aws->profile, "source_profile", lender, sizeof lender) ||
        !find_keys(files, lender, &aws->lender))
        return refuse_profile(aws,
                              "names a role, but no source_profile with an access key in the same "
                              "files",
                              reterr);
    aws->source = SOURCE_ROLE;
    return 0;
}

static int use_profile(struct tn_aws *aws, const struct aws_files *files, struct tn_text *reterr)
{
    static const char *const foreign[] = { "credential_process", "sso_session", "sso_start_url",
                                           "login_session" };
    bool named = tn_aws_env("AWS_PROFILE")[0] != '\0';
    bool there = tn_aws_profile_exists(files->credentials, false, aws->profile) ||
                 tn_aws_profile_exists(files->config, true, aws->profile);
    char unused[1024];
    char why[160];

    if (!there)
        return named ? refuse_profile(aws, "is in none of the AWS files; check AWS_PROFILE", reterr)
                     : 0;
    if (aws->region[0] == '\0')
        (void)find_setting(files, aws->profile, "region", aws->region, sizeof aws->region);
    (void)find_setting(files, aws->profile, "endpoint_url", aws->endpoint, sizeof aws->endpoint);
    if (aws->source != SOURCE_NONE)
        return 0; /* The profile has only the region to tell. */
    (void)snprintf(aws->about, sizeof aws->about, "profile '%s'", aws->profile);
    if (find_setting(files, aws->profile, "role_arn", aws->role, sizeof aws->role))
        return use_role(aws, files, reterr);
    if (find_keys(files, aws->profile, &aws->keys)) {
        aws->source = SOURCE_KEYS;
        return 0;
    }
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        (void)snprintf(why, sizeof why,
                       "uses %s, which tenure does not run; run 'eval \"$(aws configure "
                       "export-credentials --format env)\"' first",
                       foreign[i]);
        if (find_setting(files, aws->profile, foreign[i], unused, sizeof unused))
            return refuse_profile(aws, why, reterr);
    }
    return 0;
}

static int use_environment(struct tn_aws *aws, struct tn_text *reterr)
{
    const char *id = tn_aws_env("AWS_ACCESS_KEY_ID");
    const char *secret = tn_aws_env("AWS_SECRET_ACCESS_KEY");

    if (id[0] != '\0' && secret[0] != '\0') {
        if (!tn_aws_set(aws->keys.id, sizeof aws->keys.id, id) ||
            !tn_aws_set(aws->keys.secret, sizeof aws->keys.secret, secret) ||
            !tn_aws_set(aws->keys.token, sizeof aws->keys.token, tn_aws_env("AWS_SESSION_TOKEN"))) {
            tn_text_add(reterr, "the AWS credentials of the environment are too long");
            return TENURE_E_INVALID;
        }
        aws->source = SOURCE_KEYS;
        (void)tn_aws_set(aws->about, sizeof aws->about, "the environment");
    } else if (tn_aws_env("AWS_ROLE_ARN")[0] != '\0' &&
               tn_aws_env("AWS_WEB_IDENTITY_TOKEN_FILE")[0] != '\0') {
        if (!tn_aws_set(aws->role, sizeof aws->role, tn_aws_env("AWS_ROLE_ARN")) ||
            !tn_aws_set(aws->token_file, sizeof aws->token_file,
                        tn_aws_env("AWS_WEB_IDENTITY_TOKEN_FILE"))) {
            tn_text_add(reterr, "AWS_ROLE_ARN or AWS_WEB_IDENTITY_TOKEN_FILE is too long");
            return TENURE_E_INVALID;
        }
        aws->source = SOURCE_WEB_IDENTITY;
        (void)tn_aws_set(aws->about, sizeof aws->about,
                         "the web identity of AWS_WEB_IDENTITY_TOKEN_FILE");
    }
    return 0;
}

static bool begins_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* A token goes there: without TLS only to this host and to Amazon's own link-local addresses. */
static bool is_safe(const char *url)
{
    static const char *const hosts[] = { "127.0.0.1",     "localhost",      "[::1]",
                                         "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]" };

    if (begins_with(url, "https://"))
        return true;
    for (size_t i = 0; begins_with(url, "http://") && i < sizeof hosts / sizeof hosts[0]; i++) {
        size_t len = strlen(hosts[i]);
        if (begins_with(url + 7, hosts[i]) && strchr(":/", url[7 + len]) != NULL)
            return true;
    }
    return false;
}

static int use_container(struct tn_aws *aws, struct tn_text *reterr)
{
    const char *relative = tn_aws_env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = tn_aws_env("AWS_CONTAINER_CREDENTIALS_FULL_URI");

    if (aws->source != SOURCE_NONE || (relative[0] == '\0' && full[0] == '\0'))
        return 0;
    if (relative[0] == '\0' && !is_safe(full)) {
        tn_text_add(reterr, "AWS_CONTAINER_CREDENTIALS_FULL_URI must be https://, or http:// of "
                            "this host or of Amazon's container endpoints");
        return TENURE_E_INVALID;
    }
    (void)snprintf(aws->url, sizeof aws->url, "%s%s",
                   relative[0] != '\0' ? "http://169.254.170.2" : "",
                   relative[0] != '\0' ? relative : full);
    aws->source = SOURCE_CONTAINER;
    (void)tn_aws_set(aws->about, sizeof aws->about, "the container's endpoint");
    return 0;
}

static void use_instance(struct tn_aws *aws)
{
    const char *endpoint = tn_aws_env("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    const char *mode = tn_aws_env("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE");
    size_t len = strlen(endpoint);

    if (aws->source != SOURCE_NONE || strcmp(tn_aws_env("AWS_EC2_METADATA_DISABLED"), "true") == 0)
        return;
    while (len > 0 && endpoint[len - 1] == '/')
        len--;
    if (len > 0)
        (void)snprintf(aws->instance, sizeof aws->instance, "%.*s", (int)len, endpoint);
    else
        (void)snprintf(aws->instance, sizeof aws->instance, "http://%s",
                       strcmp(mode, "IPv6") == 0 ? "[fd00:ec2::254]" : "169.254.169.254");
    aws->source = SOURCE_INSTANCE;
    (void)tn_aws_set(aws->about, sizeof aws->about, "the instance's metadata service");
}

int tn_aws_configure(struct tn_aws *aws, struct tn_text *reterr)
{
    const char *region = tn_aws_env("AWS_REGION")[0] != '\0' ? tn_aws_env("AWS_REGION")
                                                             : tn_aws_env("AWS_DEFAULT_REGION");
    const char *session = tn_aws_env("AWS_ROLE_SESSION_NAME");
    const char *profile = tn_aws_env("AWS_PROFILE");
    struct aws_files files = { read_aws_file("AWS_SHARED_CREDENTIALS_FILE", "credentials"),
                               read_aws_file("AWS_CONFIG_FILE", "config") };
    int rc = TENURE_E_NOMEM;

    if (files.credentials == NULL || files.config == NULL)
        goto out;
    aws->source = SOURCE_NONE;
    rc = TENURE_E_INVALID;
    if (!tn_aws_set(aws->region, sizeof aws->region, region) ||
        !tn_aws_set(aws->session, sizeof aws->session, session[0] != '\0' ? session : "tenure") ||
        !tn_aws_set(aws->profile, sizeof aws->profile, profile[0] != '\0' ? profile : "default")) {
        tn_text_add(reterr, "AWS_REGION, AWS_ROLE_SESSION_NAME or AWS_PROFILE is too long");
        goto out;
    }
    rc = use_environment(aws, reterr);
    if (rc == 0)
        rc = use_profile(aws, &files, reterr);
    if (rc == 0)
        rc = use_container(aws, reterr);
    if (rc == 0)
        use_instance(aws);
    aws->have = aws->source == SOURCE_KEYS;
    aws->expires_at = 0;
out:
    free(files.credentials);
    free(files.config);
    return rc;
}

const char *tn_aws_region(const struct tn_aws *aws)
{
    return aws->region;
}

const char *tn_aws_source(const struct tn_aws *aws)
{
    return aws->source != SOURCE_NONE ? aws->about : "nowhere";
}

void tn_aws_endpoint(const struct tn_aws *aws, const char *service, const char *region,
                     struct tn_text *text)
{
    char variable[64];
    size_t at = (size_t)snprintf(variable, sizeof variable, "AWS_ENDPOINT_URL_");

    for (const char *from = service; *from != '\0' && at < sizeof variable - 1; from++)
        variable[at++] = (char)(*from >= 'a' && *from <= 'z' ? *from - 'a' + 'A' : *from);
    variable[at] = '\0';
    if (strcmp(tn_aws_env("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"), "true") == 0)
        variable[0] = '\0';
    if (variable[0] != '\0' && tn_aws_env(variable)[0] != '\0')
        tn_text_add(text, tn_aws_env(variable));
    else if (variable[0] != '\0' && tn_aws_env("AWS_ENDPOINT_URL")[0] != '\0')
        tn_text_add(text, tn_aws_env("AWS_ENDPOINT_URL"));
    else if (variable[0] != '\0' && aws->endpoint[0] != '\0')
        tn_text_add(text, aws->endpoint);
    else
        tn_text_addf(text, "https://%s.%s.amazonaws.com%s", service, region,
                     begins_with(region, "cn-") ? ".cn" : "");
}
